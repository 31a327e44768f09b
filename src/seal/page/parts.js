"use strict";
const at = (id) => document.getElementById(id), root = document.documentElement;
root.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
const flip = () => { root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"; };
at("theme").addEventListener("click", flip);

function make(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "onclick") node.addEventListener("click", value); else node.setAttribute(key, value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== "")
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  return node;
}
const good = new Set(["pass", "correct_abstention"]), mute = new Set(["undetermined", "unreached", "verifier_error"]);
const tone = (label) => good.has(label) ? "good" : mute.has(label) ? "mute" : "";
const tag = (label) => make("span", { class: "tag " + tone(label) }, label);
const block = (...content) => make("pre", {}, content);

/* Keys that every page has: j and k, / and t. Each handler is there or not. */
function keys(next, previous, search) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches("input, select, textarea")) { if (event.key === "Escape") event.target.blur(); return; }
    if (event.key === "t") flip();
    else if (next && event.key === "j") next();
    else if (previous && event.key === "k") previous();
    else if (search && event.key === "/") { event.preventDefault(); search.focus(); }
  });
}

/* Scrolls a list until one of its entries is in sight: the list alone, never the page. */
function keepInSight(list, entry) {
  const top = entry.offsetTop - list.offsetTop;
  if (top < list.scrollTop) list.scrollTop = top;
  else if (top + entry.offsetHeight > list.scrollTop + list.clientHeight) list.scrollTop = top + entry.offsetHeight - list.clientHeight;
}

/* One select for each field, with counts; fields: name -> [title, values of an item]. */
function selects(fields, items, chosen, changed, least) {
  for (const [name, [title, of]] of Object.entries(fields)) {
    const counted = new Map();
    for (const item of items) for (const value of new Set(of(item))) counted.set(value, (counted.get(value) || 0) + 1);
    if (counted.size < least) continue;
    const order = name === "round" ? (a, b) => a[0] - b[0] : (a, b) => b[1] - a[1];
    const select = make("select", { id: "filter-" + name }, make("option", { value: "" }, "all"),
      [...counted.entries()].sort(order).map(([value, count]) => make("option", { value }, value + " (" + count + ")")));
    select.addEventListener("change", () => { chosen[name] = select.value; changed(); });
    at("filters").append(make("label", {}, title, select));
  }
}
/* Labels that a list shows for an episode: its failures, or else all. */
const worst = (labels) => { const bad = [...new Set(labels.filter((label) => !tone(label)))]; return bad.length ? bad : [...new Set(labels)]; };

function turn(item, index) {
  const hits = new Set(item.signals.filter((signal) => !signal.repaired).map((signal) => signal.step));
  return make("div", { class: "turn" }, make("p", {}, make("b", {}, "Turn " + (index + 1)), " ", tag(item.label)), item.why ? make("p", {}, item.why) : "",
    item.signals.length ? make("details", {}, make("summary", {}, item.signals.length + " sign(s)"), item.signals.map((signal) =>
      make("p", { class: "small" }, tag(signal.label), " ", signal.evidence, make("span", { class: "dim" },
        (signal.step === null ? "" : " · step " + (signal.step + 1)) + (signal.repaired ? " · put right later" : ""))))) : "",
    item.user || item.steps.length ? [make("div", { class: "who" }, "user"), versions(item.user, item.user_shown)] : "",
    item.steps.map((step, number) => make("div", { class: "step" + (hits.has(number) ? " hit" : "") },
      make("div", { class: "who" }, "agent, step " + (number + 1)), step.text ? block(step.text) : "", step.calls.map(call))),
    item.left_out ? make("p", { class: "dim small" }, "Further steps are left out: the transcript is too long for this page.") : "");
}

function call(item) {
  const head = item.unread === undefined ? item.name + "(" + item.arguments + ")" : item.unread;
  return make("div", {}, make("div", { class: "who" }, item.unread === undefined ? "call" : "attempted call"), block(head),
    item.reason ? make("p", { class: "small" }, item.reason) : "", (item.violations || []).map((text) => make("p", { class: "small" }, "schema: " + text)),
    item.raw === undefined ? "" : [make("div", { class: "who" }, item.fault ? "result, error (" + item.fault + ")" : "result"), versions(item.raw, item.shown)]);
}

/* What the environment said, and what the agent saw; the difference is what stands between their common beginning and end. */
function versions(raw, seen) {
  if (seen === undefined || seen === null) return block(raw);
  let head = 0;
  while (head < raw.length && raw[head] === seen[head]) head++;
  let tail = 0;
  while (tail < raw.length - head && tail < seen.length - head && raw[raw.length - 1 - tail] === seen[seen.length - 1 - tail]) tail++;
  const marked = (text) => [text.slice(0, head), make("mark", {}, text.slice(head, text.length - tail)), text.slice(text.length - tail)];
  return make("div", { class: "pair" }, make("div", {}, make("div", { class: "who" }, "the environment said"), block(head + tail >= raw.length ? raw : marked(raw))),
    make("div", {}, make("div", { class: "who" }, "the agent saw"), block(marked(seen))));
}

