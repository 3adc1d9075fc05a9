"""The page in a real browser: what people do with it, from the first class to a killed server."""

import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest

pytest.importorskip("fastapi", reason="the service needs pip install 'gddsg[serve]'")
playwright = pytest.importorskip("playwright.sync_api", reason="the tests of the page need pip install playwright")

from tests.serve.browser import (  # noqa: E402  # what they need may be missing
    ARGUMENTS,
    CHROMIUM,
    SHAPES,
    Server,
    drop,
    files_in,
    names_on_board,
    paste,
    run_gddsg,
    teach,
    write_shapes,
)

from gddsg import PhotoClassifier  # noqa: E402

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; apt-get install chromium")

expect = playwright.expect
PATIENCE = 120_000  # milliseconds, for machines that do something else besides
expect.set_options(timeout=PATIENCE)
SERIOUS = {"serious", "critical"}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    write_shapes(folder / "train", 8)
    write_shapes(folder / "test", 3, first=50)
    return folder


@pytest.fixture(scope="module")
def chromium():
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def learnt(tmp_path_factory, photos):
    """A model file of three classes."""
    model = tmp_path_factory.mktemp("taught") / "shapes.gddsg"
    PhotoClassifier(model, quality="fast").learn(photos / "train")
    return model


@pytest.fixture(scope="module")
def taught(learnt):
    """A studio of three classes that tests look at and leave as it is."""
    server = Server(learnt).start()
    yield server
    server.kill()


@pytest.fixture
def studio(tmp_path):
    """A brand-new studio, for one test alone."""
    server = Server(tmp_path / "own.gddsg", "--quality", "fast", "--keep-photos").start()
    yield server
    server.kill()


@pytest.fixture
def open_page(chromium):
    """Opens pages that may not fail silently, nor ask anybody but their own server for anything."""
    opened, faults = [], []

    def open_at(server, *, refusals=False, **options):
        context = chromium.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(f"error: {error}"))
        page.on("console", lambda said: faults.append(said.text) if _is_fault(said, refusals) else None)
        page.on("request", lambda sent: faults.append(sent.url) if _is_foreign(sent.url, server) else None)
        opened.append(context)
        page.goto(server.address)
        return page

    yield open_at
    for context in opened:
        context.close()
    assert faults == []


def _is_fault(said, refusals):
    """Refused requests are logged by the browser; whether they are meant to be refused, the test knows."""
    if said.type not in ("error", "warning"):
        return False
    return not (refusals and "Failed to load resource" in said.text)


def _is_foreign(url, server):
    return not url.startswith((server.address, "blob:", "data:"))


def ready(page):
    page.wait_for_selector("body:not(.loading)")
    return page


def colours(page):
    """Class and group of each box of the graph, as the picture shows them."""
    script = 'all => all.map(one => [one.dataset.name, one.getAttribute("class").match(/g\\d+/)[0]])'
    return dict(page.locator("#graph-frame .node").evaluate_all(script))


def test_three_classes_are_taught_asked_forgotten_restored_and_survive_a_kill(studio, open_page, photos):
    page = ready(open_page(studio, refusals=True))
    expect(page.locator("#welcome")).to_be_visible()
    expect(page.locator("#ask-early")).to_be_visible()
    expect(page.locator("#alike")).to_be_hidden()

    for n, name in enumerate(SHAPES, 1):
        teach(page, name, files_in(photos / "train" / name))
        expect(page.locator("#board .card")).to_have_count(n)
        expect(page.locator("#taught li").first).to_contain_text(f"{name} 8")
        if n == 2:
            expect(page.locator("#graph-frame .node")).to_have_count(2)
            before = colours(page)
    expect(page.locator("#welcome")).to_be_hidden()
    assert names_on_board(page) == sorted(SHAPES)
    expect(page.locator("#graph-frame .node")).to_have_count(3)
    assert set(before) < set(colours(page))
    # picture and service agree on every group
    groups = page.evaluate("async () => (await (await fetch('v1/classes')).json()).classes")
    assert colours(page) == {one["name"]: f"g{one['group']}" for one in groups}
    image = page.locator("#board .card-pictures img").first
    image.scroll_into_view_if_needed()
    page.wait_for_function("image => image.naturalWidth > 0", arg=image.element_handle())

    page.select_option("#reject", label="never")  # eight photos say little about what is unusual
    page.set_input_files("#ask-files", files_in(photos / "test" / "blue star")[0])
    answer = page.locator("#answers .answer")
    expect(answer.locator(".answer-name")).to_contain_text("blue star")
    expect(answer.locator(".bars li")).to_have_count(3)
    answer.locator("summary").click()
    expect(answer.locator(".why")).to_contain_text("green square")

    page.get_by_role("button", name="Forget blue star").click()
    expect(page.locator("#board .card")).to_have_count(2)
    expect(page.locator("#graph-frame .node")).to_have_count(2)
    undo = page.locator(".toast").get_by_role("button", name="Undo")
    expect(undo).to_be_focused()
    expect(answer.locator(".bars li")).to_have_count(2)  # the photo was asked about again
    undo.press("Enter")
    expect(page.locator("#board .card")).to_have_count(3)
    expect(page.locator(".toast")).to_have_count(0)
    expect(page.locator("#board .card-facts").first).to_contain_text("8")

    studio.kill()
    expect(page.locator("#connection")).to_be_visible()
    studio.start()
    expect(page.locator("#connection")).to_be_hidden()
    page.reload()
    ready(page)
    assert names_on_board(page) == sorted(SHAPES)
    assert set(colours(page)) == set(SHAPES)
    expect(page.locator("#summary")).to_contain_text("24")


def test_undo_is_still_offered_after_a_reload(studio, open_page, photos):
    page = ready(open_page(studio))
    for name in SHAPES[:2]:
        teach(page, name, files_in(photos / "train" / name)[:3])
    page.get_by_role("button", name=f"Forget {SHAPES[0]}").click()
    expect(page.locator(".toast")).to_be_visible()
    page.reload()
    page.locator(".toast").get_by_role("button", name="Undo").click()
    expect(page.locator("#board .card")).to_have_count(2)


def test_a_folder_holds_classes(studio, open_page, photos):
    page = ready(open_page(studio))
    page.set_input_files("#teach-folders", photos / "train")
    names = page.locator("#batches input")
    expect(names).to_have_count(3)
    assert sorted(one.input_value() for one in names.all()) == sorted(SHAPES)
    page.click("#teach-now")
    expect(page.locator("#board .card")).to_have_count(3)
    page.set_input_files("#teach-folders", photos / "train")  # once more: nothing is learnt twice
    page.click("#teach-now")
    expect(page.locator("#taught li").first).to_contain_text("known already")
    expect(page.locator("#summary")).to_contain_text("24")


def test_photos_are_dropped_pasted_taken_out_and_refused_in_place(studio, open_page, photos):
    page = ready(open_page(studio, refusals=True))
    some = files_in(photos / "train" / "red ring")
    drop(page, "#teach-drop", some[:2])
    expect(page.locator(".batch .shot")).to_have_count(2)
    expect(page.locator(".batch input")).to_be_focused()
    page.locator("h1").click()
    paste(page, some[2:4])
    expect(page.locator(".batch .shot")).to_have_count(4)
    page.get_by_role("button", name="Leave out 00.jpg").click()
    expect(page.locator("#teach-now")).to_have_text(re.compile("Teach 3"))
    page.click("#teach-now")
    expect(page.locator(".batch .problem")).to_contain_text("name")
    for name in ("unknown", "a/b"):
        page.fill(".batch input", name)
        page.click("#teach-now")
        expect(page.locator(".batch .problem")).to_be_visible()
        expect(page.locator(".batch .problem")).to_contain_text(name)
    page.fill(".batch input", "red ring")
    page.press(".batch input", "Enter")
    expect(page.locator("#board .card")).to_have_count(1)
    expect(page.locator("#ask-alone")).to_be_visible()
    drop(page, "#board .card", some[4:6])
    expect(page.locator("#board .card-facts")).to_contain_text("5")


def test_a_file_that_is_no_photo_is_named_and_left_out(studio, open_page, photos, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no photo at all")
    page = ready(open_page(studio))
    teach(page, "red ring", [*files_in(photos / "train" / "red ring")[:3], str(tmp_path / "broken.jpg")])
    page.locator("#taught summary").click()
    expect(page.locator("#taught details li")).to_contain_text("broken.jpg")
    page.select_option("#reject", label="never")
    page.set_input_files("#ask-files", [str(tmp_path / "broken.jpg"), files_in(photos / "test" / "red ring")[0]])
    expect(page.locator(".answer").nth(0)).to_contain_text("could not be read")
    expect(page.locator(".answer").nth(1)).to_contain_text("red ring")


def test_names_are_text_and_never_markup(studio, open_page, photos):
    page = ready(open_page(studio, refusals=True))
    evil = "<img src=x onerror=document.title='hit'><b onclick=x>&amp;\"'"
    some = files_in(photos / "train" / "red ring")
    teach(page, evil, some[:4])
    teach(page, "<style>*{display:none}", files_in(photos / "train" / "green square")[:4])
    assert sorted(names_on_board(page)) == sorted([evil, "<style>*{display:none}"])
    page.select_option("#reject", label="never")
    page.set_input_files("#ask-files", some[5])
    expect(page.locator(".answer-name")).to_contain_text("onerror")
    page.locator("#graph-frame .node").first.click()
    page.locator("#graph-text summary").click()
    expect(page.locator("#graph-table th[scope=row]").first).to_contain_text("<")
    page.get_by_role("button", name=f"Forget {evil}", exact=True).click()
    expect(page.locator(".toast-text")).to_have_text(f"Forgot {evil}.")
    assert "hit" not in page.title()
    assert page.locator("main b, main style, img[src=x]").count() == 0


def test_classes_are_renamed_by_keyboard(studio, open_page, photos):
    page = ready(open_page(studio, refusals=True))
    for name in SHAPES[:2]:
        teach(page, name, files_in(photos / "train" / name)[:3])
    page.get_by_role("button", name="Rename red ring").press("Enter")
    field = page.get_by_label("New name of red ring")
    expect(field).to_be_focused()
    field.fill("green square")
    field.press("Enter")
    expect(page.locator(".rename-form .problem")).to_contain_text("green square")
    field.fill("crimson ring")
    field.press("Enter")
    expect(page.get_by_role("button", name="Rename crimson ring")).to_be_focused()
    assert names_on_board(page) == ["crimson ring", "green square"]


def test_the_camera_gives_photos_to_teach_and_live_answers(studio, open_page, photos):
    page = ready(open_page(studio, permissions=["camera"]))
    page.click("#teach-camera")
    expect(page.locator("#camera-shoot")).to_be_enabled()
    for n in (1, 2):
        page.click("#camera-shoot")
        expect(page.locator("#camera-shots li")).to_have_count(n)
    page.click("#camera-burst")
    expect(page.locator("#camera-shots li")).to_have_count(12)
    page.click("#camera-use")
    expect(page.locator(".batch .hint").first).to_have_text(re.compile("12"))
    page.fill(".batch input", "test picture")
    page.click("#teach-now")
    expect(page.locator("#board .card")).to_have_count(1)
    teach(page, "red ring", files_in(photos / "train" / "red ring")[:4])
    page.click("#ask-camera")
    expect(page.locator("#live-answer .bars li").first).to_be_visible()
    page.click("#live-stop")
    expect(page.locator("#live")).to_be_hidden()
    assert page.evaluate("document.getElementById('live-video').srcObject") is None


def test_a_folder_is_checked(taught, open_page, photos, tmp_path):
    folder = tmp_path / "check"
    shutil.copytree(photos / "test", folder)
    shutil.copy(files_in(photos / "test" / "red ring")[0], folder / "blue star" / "stray.jpg")
    page = ready(open_page(taught))
    page.set_input_files("#check-files", folder)
    figures = page.locator(".figure-value")
    expect(figures).to_have_count(3)
    assert float(figures.first.inner_text().split("\u202f")[0]) >= 50
    expect(page.locator(".wrong-photo", has_text="stray.jpg")).to_contain_text("in the folder blue star")
    table = page.locator(".confusion")
    expect(table.locator("tbody tr")).to_have_count(3)
    cells = [[cell.inner_text() for cell in row.locator("td").all()] for row in table.locator("tbody tr").all()]
    assert sum(int(cell) for row in cells for cell in row if cell.isdigit()) == 10


def test_what_was_taught_can_be_taken_away(taught, open_page):
    page = ready(open_page(taught))
    for button, ending in (("#take-model", "shapes.gddsg"), ("#take-onnx", "shapes.onnx")):
        with page.expect_download() as waiting:
            page.click(button)
        assert waiting.value.suggested_filename == ending
        assert os.path.getsize(waiting.value.path()) > 1000  # noqa: PTH202


def test_the_graph_is_walked_by_keyboard_and_told_in_words(taught, open_page):
    page = ready(open_page(taught))
    assert page.locator("#graph-frame .node[tabindex='0']").count() == 1
    page.locator("#graph-frame .node[tabindex='0']").focus()
    seen = {page.evaluate("document.activeElement.dataset.name")}
    for key in ("ArrowLeft", "ArrowRight", "ArrowRight", "ArrowUp", "ArrowDown", "ArrowDown", "Home", "End"):
        page.keyboard.press(key)
        seen.add(page.evaluate("document.activeElement.dataset.name"))
    assert len(seen) > 1
    page.keyboard.press("Enter")
    chosen = page.evaluate("document.activeElement.dataset.name")
    expect(page.locator("#graph-panel h3")).to_have_text(chosen)
    page.keyboard.press("Escape")
    expect(page.locator("#graph-panel h3")).to_have_count(0)
    page.locator("#graph-text summary").click()
    expect(page.locator("#graph-table tbody tr")).to_have_count(3)


def test_the_picture_is_the_same_every_time_and_no_box_covers_another(taught, open_page):
    page = ready(open_page(taught))
    script = """async () => {
      const { layOut } = await import("/static/layout.js");
      const nodes = Array.from({ length: 60 }, (_, i) => ({ name: "class " + i, w: 40 + (i % 7) * 5, h: 14 }));
      const pairs = nodes.slice(1).map((_, i) => [i + 1, (i * 7) % (i + 1), 0.5]);
      const once = layOut(nodes, pairs, new Map(), [900, 540]);
      const covered = once.flatMap((a, i) => once.slice(i + 1).map((b, k) => [a, b, nodes[i], nodes[i + 1 + k]]))
        .filter(([a, b, m, n]) => Math.abs(a.x - b.x) < m.w + n.w && Math.abs(a.y - b.y) < m.h + n.h);
      const twice = layOut(nodes, pairs, new Map(), [900, 540]);
      return { same: JSON.stringify(once) === JSON.stringify(twice), covered: covered.length };
    }"""
    assert page.evaluate(script) == {"same": True, "covered": 0}


def test_a_token_is_asked_for_and_rights_are_respected(learnt, tmp_path, open_page):
    model = shutil.copy(learnt, tmp_path / "guarded.gddsg")
    words = {one: run_gddsg("token", "add", model, one, "--rights", one).strip() for one in ("read", "teach")}
    server = Server(model).start()
    try:
        page = open_page(server, refusals=True)
        expect(page.locator("#token-input")).to_be_focused()
        page.fill("#token-input", "wrong")
        page.press("#token-input", "Enter")
        expect(page.locator("#token-problem")).to_be_visible()
        page.fill("#token-input", words["read"])
        page.press("#token-input", "Enter")
        expect(page.locator("#board .card")).to_have_count(3)
        expect(page.locator("#read-only")).to_be_visible()
        expect(page.locator("#teach-choose")).to_be_hidden()
        page.evaluate("sessionStorage.clear()")
        page.reload()
        page.fill("#token-input", words["teach"])
        page.press("#token-input", "Enter")
        expect(page.locator("#teach-choose")).to_be_visible()
    finally:
        server.kill()


def _thousand():
    names = [f"class {i:04d}" for i in range(1000)]
    classes = [
        {"name": name, "photos": 10 + i % 7, "distinct": 10, "group": i % 9, "thumbnails": [], "overlaps": []}
        for i, name in enumerate(names)
    ]
    edges = [[names[i], names[(i * 37 + 11) % 1000], 0.3] for i in range(0, 1000, 2)]
    return names, classes, [edge for edge in edges if edge[0] != edge[1]]


def longest_task(trace):
    """Milliseconds of processor time of a page's longest task; a clock would measure what else the machine does."""
    events = json.loads(trace.read_text())["traceEvents"]
    named = [one for one in events if one["name"] == "thread_name" and one["args"]["name"] == "CrRendererMain"]
    pages = {(one["pid"], one["tid"]) for one in named}
    tasks = [one for one in events if one["ph"] == "X" and "RunTask" in one["name"]]
    return max(one.get("tdur", 0) for one in tasks if (one["pid"], one["tid"]) in pages) / 1000


def test_a_thousand_classes_stay_smooth(taught, open_page, chromium, tmp_path):
    names, classes, edges = _thousand()
    page = ready(open_page(taught))

    def answer_model(route):
        about = route.fetch().json()
        groups = [[name for i, name in enumerate(names) if i % 9 == g] for g in range(9)]
        about |= {"revision": "many", "classes": 1000, "groups": groups, "edges": edges}
        route.fulfill(body=json.dumps(about), content_type="application/json")

    page.route("**/v1/model", answer_model)
    page.route("**/v1/classes", lambda route: route.fulfill(json={"revision": "many", "classes": classes}))
    page.route("**/v1/advice", lambda route: route.fulfill(json={"advice": []}))
    expect(page.locator("#summary")).to_contain_text("1,000")
    trace = tmp_path / "trace.json"
    chromium.start_tracing(page=page, path=trace, categories=["toplevel", "disabled-by-default-devtools.timeline"])
    page.click("#board-more")
    expect(page.locator("#board .card")).to_have_count(1000)
    for _ in range(20):
        page.mouse.wheel(0, 3000)
        page.wait_for_timeout(20)
    page.fill("#board-search", "0999")
    expect(page.locator("#board .card")).to_have_count(1)
    chromium.stop_tracing()
    assert 1 < longest_task(trace) < 100
    expect(page.locator("#graph-frame .node")).to_have_count(1000)


@pytest.fixture(scope="module")
def axe(tmp_path_factory):
    """The source of axe-core: from AXE_CORE, or of npm; never part of this repository."""
    if "AXE_CORE" in os.environ:
        with open(os.environ["AXE_CORE"], encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    if shutil.which("npm") is None:
        pytest.skip("axe-core is not here; install npm, or name its axe.min.js in AXE_CORE")
    folder = tmp_path_factory.mktemp("axe")
    done = subprocess.run(["npm", "pack", "axe-core"], cwd=folder, capture_output=True, timeout=120)
    packed = next(folder.glob("axe-core-*.tgz"), None)
    if done.returncode or packed is None:
        pytest.skip("axe-core could not be fetched by npm; name its axe.min.js in AXE_CORE")
    with tarfile.open(packed) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()


def _violations(page, axe):
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
    return [
        (one["id"], node["target"], node["failureSummary"])
        for one in found
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(taught, open_page, photos, axe, scheme):
    page = ready(open_page(taught, color_scheme=scheme, reduced_motion="reduce"))
    page.set_input_files("#ask-files", [files_in(photos / "test" / name)[0] for name in SHAPES])
    expect(page.locator(".answer-name")).to_have_count(3)
    for summary in page.locator(".why summary").all():
        summary.click()
    page.set_input_files("#teach-files", files_in(photos / "train" / "red ring"))
    page.click("#teach-now")  # without a name: the problem is shown
    page.locator("#graph-frame .node").first.click()
    page.locator("#graph-text summary").click()
    page.set_input_files("#check-files", photos / "train")
    expect(page.locator(".figure-value")).to_have_count(3)
    page.get_by_role("button", name="Rename red ring").click()
    assert _violations(page, axe) == []
    page.click("#teach-camera")
    assert _violations(page, axe) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_in_a_new_studio_on_a_telephone(studio, open_page, axe, scheme):
    page = ready(open_page(studio, color_scheme=scheme, viewport={"width": 360, "height": 740}, has_touch=True))
    assert _violations(page, axe) == []


def test_a_telephone_shows_all_without_scrolling_sideways(taught, open_page, photos):
    page = ready(open_page(taught, viewport={"width": 360, "height": 740}, has_touch=True, is_mobile=True))
    page.set_input_files("#ask-files", files_in(photos / "test" / "red ring")[0])
    page.set_input_files("#teach-files", files_in(photos / "train" / "red ring"))
    page.set_input_files("#check-files", photos / "test")
    expect(page.locator(".figure-value")).to_have_count(3)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.locator("nav a", has_text="Ask").tap()
    expect(page.locator("#ask-title")).to_be_in_viewport()
