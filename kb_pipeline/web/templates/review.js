// Keys for people with many questions: j and k move, a accepts, s with the suggested text, d dismisses, e edits, u takes the last answer back.
"use strict";

const items = [...document.querySelectorAll("a.item")];

function move(step) {
  const at = items.indexOf(document.activeElement);
  const next = at < 0 ? (step > 0 ? 0 : items.length - 1) : Math.min(items.length - 1, Math.max(0, at + step));
  items[next].focus();
}

function edit() {
  const form = document.getElementById("edit");
  if (!form) return false;
  form.open = true;
  form.querySelector("textarea").focus();
  return true;
}

document.addEventListener("keydown", (event) => {
  const inText = event.target.matches("textarea, input:not([type=checkbox]), select");
  if (event.altKey || event.ctrlKey || event.metaKey || inText) return;
  if (items.length && (event.key === "j" || event.key === "k")) {
    move(event.key === "j" ? 1 : -1);
    event.preventDefault();
    return;
  }
  if (event.key === "e" && edit()) {
    event.preventDefault();
    return;
  }
  const target = document.querySelector(`[data-key="${CSS.escape(event.key)}"]:not([disabled])`);
  if (target) {
    event.preventDefault();
    target.click();
  }
});
