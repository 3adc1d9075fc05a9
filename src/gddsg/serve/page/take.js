// Downloads: the model file, the ONNX network.

import { blobOf } from "./api.js";
import { find, make, showProblem } from "./dom.js";
import { studio } from "./state.js";

const offer = (address, name) => {
  const link = make("a", { href: address, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
};

const stem = () => (studio.model?.file ?? "model.gddsg").replace(/\.gddsg$/, "");

// Through fetch, so that a refusal is told in place rather than saved as a file, and a token can be sent.
const take = async (trigger, path, name) => {
  const problem = find("take-problem");
  trigger.disabled = true;
  trigger.setAttribute("aria-busy", "true");
  showProblem(problem, null);
  try {
    const address = URL.createObjectURL(await blobOf(path));
    offer(address, name);
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch (error) {
    showProblem(problem, error);
  }
  trigger.disabled = false;
  trigger.removeAttribute("aria-busy");
};

export const startTake = () => {
  find("take-model").addEventListener("click", (event) => take(event.currentTarget, "v1/export/model", `${stem()}.gddsg`));
  find("take-onnx").addEventListener("click", (event) => take(event.currentTarget, "v1/export/onnx", `${stem()}.onnx`));
  studio.addEventListener("changed", () => { find("take").hidden = !studio.classes.length; });
};
