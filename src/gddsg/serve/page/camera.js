// The camera: photos for teaching in a dialogue, and a live picture for asking.

import { find, iconButton, make, say, showProblem } from "./dom.js";
import { pictureOf } from "./pictures.js";
import { counted } from "./words.js";

const BURST = 10;
const BETWEEN = 500;

const REASONS = {
  NotAllowedError: "The camera is not allowed for this page. Allow it in the browser’s settings of this site, then try again.",
  NotFoundError: "No camera was found. Plug one in, or choose photos instead.",
  NotReadableError: "The camera is in use by another program. Close that one, then try again.",
};

const cameras = async () => (await navigator.mediaDevices.enumerateDevices()).filter((one) => one.kind === "videoinput");

// Show the camera in `video`; an Error in plain words where that is not possible.
export const openCamera = async (video, deviceId = null) => {
  if (!navigator.mediaDevices?.getUserMedia) {
    throw new Error("Browsers give pages a camera only over HTTPS or on this machine itself (localhost). Choose photos instead.");
  }
  const wanted = deviceId ? { deviceId: { exact: deviceId } } : { facingMode: "environment" };
  try {
    video.srcObject = await navigator.mediaDevices.getUserMedia({ video: { width: { ideal: 1280 }, ...wanted }, audio: false });
    await video.play();
  } catch (error) {
    closeCamera(video);
    throw new Error(REASONS[error.name] ?? `The camera could not be opened (${error.message}).`);
  }
};

export const closeCamera = (video) => {
  video.srcObject?.getTracks().forEach((track) => track.stop());
  video.srcObject = null;
};

let taken = 0;

// What the camera sees now, as a file.
export const shoot = (video) => new Promise((done, failed) => {
  const canvas = make("canvas", { width: video.videoWidth, height: video.videoHeight });
  if (!canvas.width) {
    failed(new Error("The camera shows nothing yet. Wait a moment."));
    return;
  }
  canvas.getContext("2d").drawImage(video, 0, 0);
  taken += 1;
  const name = `camera-${taken}.jpg`;
  canvas.toBlob((blob) => blob ? done(new File([blob], name, { type: "image/jpeg" })) : failed(new Error("The picture could not be taken.")), "image/jpeg", 0.92);
});

// The dialogue in which photos are taken; `use` gets them.
export const startCamera = (use) => {
  const dialog = find("camera-dialog"), video = find("camera-video"), problem = find("camera-problem");
  const list = find("camera-shots"), burst = find("camera-burst"), done = find("camera-use");
  let shots = [], bursting = 0, device = 0;

  const count = () => {
    done.disabled = !shots.length;
    find("camera-count").textContent = shots.length ? `${counted(shots.length, "photo")} taken` : "";
  };
  const leaveOut = (file, item) => {
    shots = shots.filter((one) => one !== file);
    item.remove();
    count();
    find("camera-shoot").focus();
  };
  const take = async () => {
    try {
      const file = await shoot(video);
      shots.push(file);
      const item = make("li", { class: "shot" }, pictureOf(file));
      item.append(iconButton("close", `Leave out ${file.name}`, () => leaveOut(file, item), { class: "remove" }));
      list.prepend(item);
      count();
    } catch (error) {
      showProblem(problem, error);
    }
  };
  const stopBurst = () => {
    clearInterval(bursting);
    bursting = 0;
    burst.textContent = "Ten in five seconds";
  };
  const startBurst = () => {
    let left = BURST;
    burst.textContent = "Stop";
    bursting = setInterval(() => {
      take();
      left -= 1;
      if (!left) stopBurst();
    }, BETWEEN);
  };
  const open = async (deviceId = null) => {
    showProblem(problem, null);
    find("camera-shoot").disabled = burst.disabled = true;
    try {
      await openCamera(video, deviceId);
      find("camera-shoot").disabled = burst.disabled = false;
      find("camera-turn").hidden = (await cameras()).length < 2;
    } catch (error) {
      showProblem(problem, error);
    }
    if (!dialog.open) closeCamera(video);  // closed while the browser was still asking
  };

  find("camera-shoot").addEventListener("click", take);
  burst.addEventListener("click", () => (bursting ? stopBurst() : startBurst()));
  find("camera-turn").addEventListener("click", async () => {
    const all = await cameras();
    device = (device + 1) % all.length;
    closeCamera(video);
    await open(all[device].deviceId);
  });
  find("camera-close").addEventListener("click", () => dialog.close());
  done.addEventListener("click", () => {
    const files = shots;
    dialog.close();
    use(files);
    say(`${counted(files.length, "photo")} of the camera are ready to be taught.`);
  });
  dialog.addEventListener("close", () => {
    stopBurst();
    closeCamera(video);
  });
  return () => {
    shots = [];
    list.replaceChildren();
    count();
    dialog.showModal();
    open();
  };
};
