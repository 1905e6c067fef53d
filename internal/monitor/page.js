"use strict";
// Fetches the page again every five seconds and puts its live parts in the place of
// those that differ, but for one that holds the focus. Without it the page is whole.
(() => {
  const note = document.getElementById("updates");
  const button = document.createElement("button");
  let stopped = false;
  const say = (text) => { if (note.firstChild.data !== text) note.firstChild.data = text; };
  const label = () => { button.textContent = stopped ? "Go on updating" : "Stop updating"; };
  note.textContent = "Updated every five seconds.";
  button.type = "button";
  button.addEventListener("click", () => {
    stopped = !stopped;
    label();
    say(stopped ? "Stopped." : "Updated every five seconds.");
  });
  label();
  note.after(" ", button);
  const take = (text) => {
    const next = new DOMParser().parseFromString(text, "text/html");
    document.title = next.title;
    for (const part of document.querySelectorAll("[data-live]")) {
      const other = next.getElementById(part.id);
      if (!other || part.contains(document.activeElement) || part.innerHTML === other.innerHTML) continue;
      part.replaceChildren(...other.childNodes);
    }
  };
  const look = async () => {
    if (stopped || document.hidden) return;
    try {
      const answer = await fetch("./", { signal: AbortSignal.timeout(10000) });
      if (!answer.ok) throw new Error();
      take(await answer.text());
      if (!stopped) say("Updated every five seconds.");
    } catch {
      say("No answer: what stands here is old.");
    }
  };
  setInterval(look, 5000);
})();
