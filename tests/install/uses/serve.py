"""The HTTP service is started, and asked what is on a picture of a letter."""

import io
import json
import re
import subprocess
import sys
import urllib.request

from PIL import Image

from gddsg.data.glyphs import render_glyph

command = [sys.executable, "-m", "gddsg", "serve", "--demo", "--port", "0"]
with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
    try:
        said = ""
        while not (found := re.search(r"http://[\d.:]+", said)):
            line = process.stdout.readline()
            if not line:
                raise SystemExit(process.stderr.read())
            said += line
        picture = io.BytesIO()
        Image.fromarray(render_glyph("digit 4", "DejaVuSans", seed=1)).save(picture, "PNG")
        body = b'--x\r\nContent-Disposition: form-data; name="files"; filename="k.png"\r\n\r\n' + picture.getvalue()
        head = {"Content-Type": "multipart/form-data; boundary=x"}
        request = urllib.request.Request(f"{found[0]}/v1/predict", body + b"\r\n--x--\r\n", head)
        with urllib.request.urlopen(request, timeout=60) as answer:
            label = json.load(answer)["predictions"][0]["label"]
    finally:
        process.terminate()
assert label == "digit 4", label
