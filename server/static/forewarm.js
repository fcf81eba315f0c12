// Keeps the page current, and has forms answer while they are changed. Everything works without it, by links and buttons.
"use strict";
(() => {
  const refresh = 15000; // ms
  let asking = 0;

  // show replaces the parts of the page that hold numbers with those of another address.
  async function show(address, keepForms) {
    const turn = ++asking;
    const main = document.querySelector("main");
    try {
      const answer = await fetch(address, { headers: { Accept: "text/html" } });
      const text = await answer.text();
      if (turn !== asking) return;
      const next = new DOMParser().parseFromString(text, "text/html");
      const names = (of) => [...of.querySelectorAll("[data-part]")].map((part) => part.dataset.part).join();
      if (names(document) !== names(next)) return location.reload(); // a page of another version, or in another state
      for (const part of document.querySelectorAll("[data-part]")) {
        const other = next.querySelector(`[data-part="${part.dataset.part}"]`);
        if (!other || (keepForms && part.tagName === "FORM")) continue;
        if (part.tagName === "FORM" && part.contains(document.activeElement)) continue;
        for (const open of part.querySelectorAll("details[open][id]")) other.querySelector(`#${open.id}`)?.setAttribute("open", "");
        const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
        part.replaceWith(document.adoptNode(other));
        if (focused) other.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
      }
    } catch {
      const stamp = document.querySelector(".stamp");
      if (stamp) stamp.textContent = "The daemon does not answer: this page is old.";
    } finally {
      main.removeAttribute("aria-busy");
    }
  }

  // addressOf is what a form asks for. A slider at its right end asks for now.
  function addressOf(form) {
    const query = new URLSearchParams(new FormData(form));
    for (const live of form.querySelectorAll("input[data-now]")) if (live.value === live.max) query.delete(live.name);
    const address = new URL(location.href);
    address.search = query.toString();
    return address;
  }

  let pause;
  document.addEventListener("input", (event) => {
    const field = event.target, form = field.form;
    if (!form || !("part" in form.dataset)) return;
    const output = form.querySelector(`output[for="${field.id}"]`);
    if (output && "now" in field.dataset) {
      output.textContent = field.value === field.max ? "now" : new Date(field.value * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC";
    } else if (output) {
      output.textContent = field.value;
    }
    clearTimeout(pause);
    pause = setTimeout(() => {
      const address = addressOf(form);
      history.replaceState(null, "", address);
      document.querySelector("main").setAttribute("aria-busy", "true");
      show(address, true);
    }, 200);
  });
  document.addEventListener("submit", (event) => {
    if (!("part" in event.target.dataset)) return;
    event.preventDefault();
    location.assign(addressOf(event.target));
  });
  setInterval(() => { if (!document.hidden) show(location.href, location.search !== ""); }, refresh);
})();
