// Asks for the token when the studio wants one.

import { onTokenNeeded, setToken } from "./api.js";
import { find, showProblem } from "./dom.js";

export const startToken = () => {
  const dialog = find("token-dialog"), input = find("token-input"), problem = find("token-problem");
  let answer = null;
  const close = (given) => {
    answer?.(given);
    answer = null;
    if (dialog.open) dialog.close();
  };
  find("token-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const given = input.value.trim();
    if (!given) return;
    setToken(given);
    input.value = "";
    close(true);
  });
  find("token-cancel").addEventListener("click", () => close(false));
  dialog.addEventListener("close", () => close(false));  // Escape, too
  onTokenNeeded((wasWrong) => {
    setToken("");
    showProblem(problem, wasWrong ? "The studio does not know this token. Look for a missing letter, or ask for another." : null);
    if (!dialog.open) dialog.showModal();
    input.focus();
    return new Promise((done) => { answer = done; });
  });
};
