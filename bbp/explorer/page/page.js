// The page: controls, words, files. What it shows comes from a backend: the server of `bbp explore`, or the grid of an exported file.
"use strict";
window.bbp = (function () {
  const byId = (id) => document.getElementById(id);
  const CONTROLS = __CONTROLS__;
  const PHASE_P = __WIDTHS__;
  let state = __STATE__;
  let board = null, backend = null, waiting = null, inFlight = false, serial = 0, sentAt = 0, timings = [], hastened = null, typed = null, lost = false, addressed = 0;

  // ---- numbers, and where a slider stands ----
  const value = (text) => (String(text).trim().replace("∞", "inf") === "inf" ? Infinity : Number(text));
  const shown = (v) => (v === Infinity || v === "inf" ? "inf" : String(v));
  const digits = (v, k) => String(Number(Number(v).toPrecision(k)));
  function ofSlider(c, place) {
    if (c.scale === "stops") return shown(c.stops[Math.round(place)]);
    const [low, high] = c.slider, x = place / 1000;
    const v = c.scale === "log" ? low * Math.pow(high / low, x) : low + (high - low) * x;
    return c.whole ? String(Math.round(Number(v.toPrecision(3)))) : digits(v, 4);
  }
  function toSlider(c, text) {
    const v = value(text);
    if (c.scale === "stops") {
      let best = 0;
      c.stops.forEach((stop, i) => { if (value(stop) <= v) best = i; });
      return best;
    }
    const [low, high] = c.slider;
    const x = c.scale === "log" ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low);
    return Math.round(1000 * Math.min(1, Math.max(0, x)));
  }

  // ---- controls ----
  function syncControl(c) {
    const field = byId("c-" + c.name);
    if (c.scale === "choice") {
      // an object of one's own, from a file or a link
      if (![...field.options].some((option) => option.value === state[c.name])) field.add(new Option(state[c.name]));
      field.value = state[c.name];
      return;
    }
    if (typed !== c.name) field.value = shown(state[c.name]);
    if (c.scale === "numbers") return;
    const slider = byId("r-" + c.name);
    if (document.activeElement !== slider || ofSlider(c, slider.value) !== shown(state[c.name])) slider.value = toSlider(c, state[c.name]);
    setOnce(slider, "aria-valuetext", c.label + " = " + shown(state[c.name]));
  }
  function wire(c) {
    const field = byId("c-" + c.name);
    if (c.scale === "choice") { field.addEventListener("change", () => move({ [c.name]: field.value })); syncControl(c); return; }
    if (c.scale !== "numbers") {
      const slider = byId("r-" + c.name);
      if (c.scale === "stops") { slider.max = c.stops.length - 1; slider.step = 1; }
      slider.addEventListener("input", () => { typed = null; const v = ofSlider(c, slider.value); field.value = v; move({ [c.name]: v }); });
    }
    field.addEventListener("input", () => { typed = c.name; });
    field.addEventListener("change", () => move({ [c.name]: field.value }, c.name));
    field.addEventListener("blur", () => { if (typed === c.name && byId("error").textContent === "") { typed = null; syncControl(c); } });
    syncControl(c);
  }
  function complain(text, name) {
    say("error", text || "");
    for (const c of CONTROLS) if (c.scale !== "choice") setOnce(byId("c-" + c.name), "aria-invalid", text && c.name === name ? "true" : "false");
  }
  // Only what differs is written: every write has the browser look at its styles again.
  function setOnce(element, name, wanted) { if (element.getAttribute(name) !== wanted) element.setAttribute(name, wanted); }
  function say(id, text) { const element = byId(id); if (element && element.textContent !== text) element.textContent = text; }

  // ---- asking and hearing: one question at a time, the newest waits ----
  function move(change, name) {
    waiting = { values: Object.assign({}, waiting ? waiting.values : state, change), name: name || null };
    next();
  }
  function next() {
    if (inFlight || !waiting || !backend || lost) return;
    const asked = waiting;
    waiting = null; inFlight = true; serial += 1; sentAt = performance.now();
    backend.ask({ do: "state", serial: serial, values: asked.values, name: asked.name });
  }
  // Dictionaries arrive from Python as Map.
  function plain(thing) {
    if (thing instanceof Map) return Object.fromEntries([...thing].map(([key, inner]) => [key, plain(inner)]));
    return Array.isArray(thing) ? thing.map(plain) : thing;
  }
  // Columns travel in one array, name by name: hundreds of numbers in as many messages would be slow.
  function unpacked(found) {
    let from = 0;
    for (const [source, names] of Object.entries(found.packed || {})) {
      found.sources[source] = Object.fromEntries(names.map(([name, size]) => [name, found.numbers.slice(from, from += size)]));
    }
  }
  function show(found) {
    unpacked(found);
    const quiet = { sync: false };
    for (const [name, columns] of Object.entries(found.sources)) board.sources[name].setv({ data: columns }, quiet);
    for (const [name, place] of Object.entries(found.lines)) {
      board.lines[name].setv(place === null ? { visible: false } : { visible: true, location: place }, quiet);
    }
    for (const [name, [left, right, low, high]] of Object.entries(found.axes)) {
      const { x_range, y_range } = board.figures[name];
      x_range.setv({ start: left, end: right, reset_start: left, reset_end: right }, quiet);
      y_range.setv({ start: low, end: high, reset_start: low, reset_end: high }, quiet);
    }
  }
  // Figures that an answer has changed are painted as soon as their glyphs have taken it (in microtasks of their own), not when
  // Bokeh would, up to a frame later.
  function paintNow() {
    for (const panel of Object.values(board.figures)) {
      const view = Bokeh.index.find_one(panel);
      if (view && view.repaint) view.repaint();
    }
  }
  function hear(answer) {
    const arrived = performance.now();
    show(answer);
    for (const [id, text] of Object.entries(answer.words || {})) say(id, text);
    setTimeout(paintNow, 0);
    if (answer.stale !== undefined) byId("plot-phases").classList.toggle("stale", answer.stale); // until its own diagram comes
    if (answer.serial === undefined) return;
    if (answer.error) { // what was typed stays to be corrected; every other control stands where the numbers are
      complain(answer.error, answer.name); typed = answer.name;
      if (!waiting) for (const c of CONTROLS) if (c.name !== answer.name) syncControl(c);
    } else if (answer.values) {
      state = answer.values;
      if (!waiting) { complain(""); typed = null; }
      showLink(answer.words.query);
      nameSize();
      for (const c of CONTROLS) if (!waiting) syncControl(c);
    }
    inFlight = false;
    const started = sentAt, mine = answer.serial, theory = answer.theory || 0;
    requestAnimationFrame(() => setTimeout(() => {
      if (mine !== serial && inFlight) return;
      const now = performance.now(), took = { all: now - started, theory, wire: arrived - started - theory, browser: now - arrived };
      timings.push(took);
      if (timings.length > 500) timings.shift();
      byId("timing").textContent = "redrawn in " + took.all.toFixed(0) + " ms";
    }, 0));
    document.documentElement.dataset.serial = mine;
    next();
  }
  function nameSize() { for (const key of document.querySelectorAll(".key-n")) if (key.textContent !== "N = " + state.n) key.textContent = "N = " + state.n; }
  function showLink(query) {
    const url = location.protocol === "file:" ? location.href.split("?")[0] + "?" + query : location.origin + location.pathname + "?" + query;
    say("link", url);
    clearTimeout(addressed); // browsers count changes of the address: the last of many quick moves is enough
    addressed = setTimeout(() => { try { history.replaceState(null, "", "?" + query); } catch (error) { /* a file opened from disk keeps its address */ } }, 150);
  }

  // ---- status of samples, finite-N curves and sweep files (live pages) ----
  function heard(status) {
    if (status.progress !== undefined) byId("progress").value = status.progress;
    for (const id of ["sample-words", "finite-words", "sweep-words"]) if (status[id] !== undefined) byId(id).textContent = status[id] || "\u00a0";
    if (status.busy !== undefined) { byId("draw").disabled = status.busy; byId("cancel").disabled = !status.busy; }
    if (status.quantities !== undefined) {
      const select = byId("quantity");
      byId("quantities").hidden = status.quantities.length === 0;
      if (status.quantities.length !== select.options.length) select.replaceChildren(...status.quantities.map(([name, words]) => new Option(words, name)));
      if (status.quantities.length) select.value = status.quantities[0][0];
    }
    if (status.file !== undefined) for (const key of document.querySelectorAll(".key-file")) key.textContent = status.file;
    if (status.paths !== undefined) { byId("paths").hidden = status.paths === ""; byId("path-words").textContent = status.paths || "\u00a0"; }
    if (status.models !== undefined) {
      const row = byId("sweep-models");
      row.replaceChildren(...status.models.map((held) => {
        const button = document.createElement("button");
        button.type = "button"; button.textContent = held.text;
        button.addEventListener("click", () => move(held.values));
        return button;
      }));
      byId("close-sweep").disabled = status.models.length === 0;
    }
  }
  function ask(message) { if (backend && !lost) backend.ask(message); }
  function draw() { if (!byId("draw").disabled) { byId("draw").disabled = true; ask({ do: "draw" }); } }
  function openFile(file) {
    if (!file) return;
    if (file.size > __UPLOAD__) {
      byId("sweep-words").textContent = "This file has more than " + Math.round(__UPLOAD__ / 1048576) + " MiB: start with  bbp explore FILE.h5  instead.";
      return;
    }
    const reader = new FileReader();
    byId("sweep-words").textContent = "reading " + file.name;
    reader.onload = () => ask({ do: "open", name: file.name, content: String(reader.result).split(",")[1] || "" });
    reader.onerror = () => { byId("sweep-words").textContent = "The browser could not read this file."; };
    reader.readAsDataURL(file);
  }
  function gone() {
    lost = true;
    byId("notice").textContent = "The program bbp explore has stopped or cannot be reached: what is shown stays, nothing moves. Start it again and reload this page.";
    for (const element of document.querySelectorAll("#controls input, #controls select, #draw, #cancel, #sweep-file, #close-sweep")) element.disabled = true;
  }

  function back() {
    lost = inFlight = false;
    byId("notice").textContent = "";
    for (const element of document.querySelectorAll("#controls input, #controls select, #draw, #sweep-file")) element.disabled = false;
    move({});
  }

  // ---- files ----
  function save(blob, name) {
    const anchor = document.createElement("a");
    anchor.href = URL.createObjectURL(blob); anchor.download = name;
    document.body.append(anchor); anchor.click(); anchor.remove();
    setTimeout(() => URL.revokeObjectURL(anchor.href), 10000);
  }
  const optional = (c) => byId("options") !== null && byId("options").contains(byId("c-" + c.name));
  const stem = () => "bbp-" + CONTROLS.filter((c) => shown(state[c.name]) !== shown(c.default)  || !optional(c)).map((c) => c.name + shown(state[c.name])).join("-").replace(/[^\w.+-]/g, "_");
  function columnsOf(name) {
    const data = board.sources[name].data;
    return data instanceof Map ? Object.fromEntries(data) : data;
  }
  function csvOf(name) {
    const data = columnsOf(name), keys = Object.keys(data), length = keys.length ? data[keys[0]].length : 0;
    const head = "# " + name + " of " + CONTROLS.filter((c) => shown(state[c.name]) !== shown(c.default) || !optional(c)).map((c) => c.label + " = " + shown(state[c.name])).join(", ");
    const lines = [head, keys.join(",")];
    for (let i = 0; i < length; i++) lines.push(keys.map((key) => (Number.isNaN(data[key][i]) ? "nan" : data[key][i])).join(","));
    return lines.join("\n") + "\n";
  }
  async function picture(name, form) {
    const panel = board.figures[name], dark = document.documentElement.classList.contains("dark");
    paint(false, panel); panel.setv({ background_fill_color: "white", border_fill_color: "white" }, { sync: false });
    const view = Bokeh.index.find_one(panel);
    await settled();
    const layer = view.export(form);
    const blob = await layer.to_blob();
    panel.setv({ background_fill_color: null, border_fill_color: null }, { sync: false });
    paint(dark, panel);
    save(blob, stem() + "-" + name + "." + form);
  }
  const settled = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  async function copy(id) {
    const text = byId(id).textContent;
    let good = true;
    try { await navigator.clipboard.writeText(text); } catch (error) {
      const area = document.createElement("textarea"); // pages that are not on localhost have no clipboard
      area.value = text; document.body.append(area); area.select();
      good = document.execCommand("copy"); area.remove();
    }
    byId("copied").textContent = good ? "Copied: " + (text.length > 70 ? text.slice(0, 67) + "..." : text) : "The browser refused to copy.";
  }

  // ---- light and dark ----
  const THEMES = ["system", "light", "dark"];
  let theme = "system";
  try { theme = localStorage.getItem("bbp-theme") || "system"; } catch (error) { /* storage is closed to this page */ }
  const system = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => theme === "dark" || (theme === "system" && system.matches);
  function applyTheme() {
    document.documentElement.classList.toggle("dark", isDark());
    byId("theme").textContent = "theme: " + theme;
    if (board) for (const panel of Object.values(board.figures)) paint(isDark(), panel);
  }
  function paint(dark, panel) {
    const ink = dark ? "#eceff3" : "#16181c", soft = dark ? "#aab1ba" : "#55595f", grid = dark ? "#30353c" : "#e4e7ea";
    const quiet = { sync: false };
    for (const model of panel.references()) {
      if (model.type.endsWith("Axis")) {
        model.setv({ axis_line_color: soft, major_tick_line_color: soft, minor_tick_line_color: soft, major_label_text_color: ink, axis_label_text_color: ink }, quiet);
      } else if (model.type === "Grid") model.setv({ grid_line_color: grid }, quiet);
      else if (model.tags && model.tags.includes("ink")) {
        (model.glyph || model).setv({ line_color: ink }, quiet);
      }
    }
  }

  // ---- start ----
  function start(figures, sources, lines, made) {
    const named = (list) => Object.fromEntries(list.map((model) => [model.name, model]));
    board = { figures: named(figures), sources: named(sources), lines: named(lines) };
    backend = made;
    for (const [name, panel] of Object.entries(board.figures)) {
      const canvas = byId("plot-" + name);
      canvas.setAttribute("aria-label", name);
    }
    applyTheme();
    hastened = bbpHasten(Object.values(board.figures));
    document.documentElement.dataset.ready = "yes";
    next();
  }
  function live(figures, sources, lines, ask, answer, status) {
    answer.properties.tags.change.connect(() => hear(plain(answer.tags[0])));
    status.properties.tags.change.connect(() => heard(plain(status.tags[0])));
    start(figures, sources, lines, { ask: (message) => { ask.data = { json: [JSON.stringify(message)] }; } });
    if (status.tags.length) heard(plain(status.tags[0]));
  }
  function tapped(name, x, y) {
    if (name === "phases") {
      const row = Math.round(y);
      if (row >= 0 && row < PHASE_P.length && x > 0) move({ p: PHASE_P[row], a: digits(x, 4) });
    } else if (x > 0) move({ alpha: digits(x, 4) });
  }

  for (const c of CONTROLS) wire(c);
  nameSize();
  document.addEventListener("click", (event) => { // a "?" closes with a click elsewhere, and opens alone
    for (const open of document.querySelectorAll(".what[open]")) if (!open.contains(event.target)) open.open = false;
  });
  showLink(byId("link").textContent.replace(/^\?/, ""));
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("theme").addEventListener("click", () => {
    theme = THEMES[(THEMES.indexOf(theme) + 1) % 3];
    try { localStorage.setItem("bbp-theme", theme); } catch (error) { /* storage is closed to this page */ }
    applyTheme();
  });
  byId("theme").textContent = "theme: " + theme;
  system.addEventListener("change", applyTheme);
  document.addEventListener("click", (event) => {
    const data = event.target.dataset || {};
    if (data.copy) copy(data.copy);
    else if (data.csv && board) save(new Blob([csvOf(data.csv)], { type: "text/csv" }), stem() + "-" + data.csv + ".csv");
    else if (data.picture && board) picture(data.picture, data.form);
  });
  if (byId("draw")) {
    byId("draw").addEventListener("click", draw);
    byId("cancel").addEventListener("click", () => ask({ do: "cancel" }));
    byId("sweep-file").addEventListener("change", (event) => { openFile(event.target.files[0]); event.target.value = ""; });
    byId("close-sweep").addEventListener("click", () => ask({ do: "close" }));
    byId("quantity").addEventListener("change", (event) => ask({ do: "quantity", name: event.target.value }));
  }
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target.matches("input[type=text], select") && event.key !== "Escape")) return;
    if (event.key === "t") byId("theme").click();
    else if (event.key === "d" && byId("draw")) draw();
    else if (event.key === "Escape" && byId("cancel") && !byId("cancel").disabled) byId("cancel").click();
  });
  return { start, live, tapped, hear, gone, back, move, quiet: () => !inFlight && !waiting, timings: () => timings, state: () => state, csvOf, board: () => board, hastened: () => hastened };
})();
