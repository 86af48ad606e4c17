/** Structured runs: one at a time, started here, attached to while it runs, or replayed. */
import { Chart } from "./chart.js";
import { getJson } from "./client.js";
import { Details } from "./details.js";
import { saveJson, saveLines } from "./export.js";
import { OrderForm } from "./form.js";
import { LiveRun } from "./live_run.js";
import { ResultPane, TextPane } from "./panes.js";
import { PastRuns } from "./past.js";
import { Replay } from "./replay.js";
import { go, setTitle } from "./router.js";
import { Story, spoken } from "./story.js";

const at = (id) => document.getElementById(id);
const STATES = {
  connecting: "connecting",
  running: "running",
  paused: "paused",
  lost: "connection lost, reconnecting",
  ended: "ended",
  failed: "failed",
  refused: "not started",
};

const REFRESH = 3000;
const page = {
  story: new Story(), live: null, replay: null, began: 0, state: "idle", run: "",
  attached: false, tools: [], frames: [],
};
let asked = false;
let timer = 0;

const chart = new Chart(at("chart"), select);
const details = new Details(at("details"), (item, outcome) => page.live.answer(item.id, outcome), returnsOf);
const text = new TextPane(at("text"), select);
const result = new ResultPane(at("result"));
const form = new OrderForm(at("order"), start);
const past = new PastRuns(at("past"), at("run-search"), choose);

function select(item) {
  chart.select(item);
  details.show(item);
}

// ── a live run ───────────────────────────────────────────────────────────────

function sinceStart() {
  return performance.now() - page.began;
}

/** Returns the schema of a client tool's result, where the request of the run has one. */
function returnsOf(item) {
  return page.tools.find((tool) => tool?.name === item.label)?.returns;
}

function liveRun(story, times = new Map()) {
  const live = new LiveRun(
    (event) => {
      const n = Number(event.id.split(":").at(-1));
      // An event that was written before we read it keeps the time at which it was written.
      const time = Math.max(story.last, times.get(n) ?? sinceStart());
      story.feed(time, event.name, event.data);
      page.frames.push({ ms: Math.round(time * 10) / 10, n, event: event.name, data: event.data });
      if (event.name === "tool.call" && event.data.client) waitsForUs(story);
      draw();
    },
    (state) => {
      if (page.story === story) change(story, state);
    },
  );
  return live;
}

function waitsForUs(story) {
  const item = story.items.at(-1);
  draw();
  requestAnimationFrame(() => {
    if (item.open && page.story === story) select(item);
  });
}

function begin(fields) {
  page.live?.leave();
  Object.assign(page, { replay: null, began: performance.now(), run: "", attached: false, tools: [], frames: [], ...fields });
  details.showRun(null);
  past.mark("");
  say("");
}

async function start(body, pace) {
  const story = new Story();
  const live = liveRun(story);
  begin({ story, live, tools: Array.isArray(body.tools) ? body.tools : [] });
  change(story, "connecting");
  try {
    await live.run(body, pace);
  } catch (error) {
    fail(story, error);
  }
  end(live);
}

/** Follows a run that was started elsewhere, or before the page was loaded again. */
async function attach(run, kept) {
  const story = new Story();
  const times = new Map((kept?.frames ?? []).map((frame) => [frame.n, frame.ms]));
  const live = liveRun(story, times);
  const began = performance.now() - (kept?.elapsed_ms ?? 0);
  begin({ story, live, run, began, attached: true, tools: kept?.prompt?.order?.tools ?? [] });
  past.mark(run);
  change(story, "connecting");
  try {
    await live.attach(run);
  } catch (error) {
    if (page.live === live) fail(story, error);
  }
  end(live);
}

function end(live) {
  if (page.live !== live) return;
  page.live = null;
  controls();
  // The last artifacts are written just after the last event.
  setTimeout(() => past.refresh(), 300);
}

function change(story, state) {
  page.state = state;
  page.run = page.live?.id || page.run;
  // The address itself is read: another view that was just chosen is not the shown one yet.
  if (page.run && /^#runs?(?:\/|$)/u.test(location.hash)) {
    history.replaceState(null, "", `#run/${page.run}`); // the address leads back to this run
    setTitle(`Run ${page.run}`);
  }
  const time = sinceStart();
  for (const kind of ["paused", "lost"]) {
    if (state === kind) story.beginSpan(kind, time);
    else story.endSpan(kind, time);
  }
  controls();
  draw();
}

function fail(story, error) {
  change(story, "failed");
  if (error.wantsKey) page.onkey(error);
  else if (page.attached && story.events === 0) say(`${page.run} cannot be opened: ${error.message}`);
  else if (story.events > 0) say(`The stream ended early: ${error.message}`);
  else form.complain(error instanceof TypeError ? new Error("the gateway cannot be reached; check that it runs") : error);
  if (story.events === 0) page.state = "refused";
  draw();
}

async function abort() {
  try {
    await page.live?.abort();
  } catch (error) {
    say(`The run could not be aborted: ${error.message}`);
  }
}

function togglePause() {
  if (page.live?.state === "paused") page.live.resume();
  else page.live?.pause();
}

// ── a past run ───────────────────────────────────────────────────────────────

function choose(run) {
  if (page.run === run) openRun(run); // the address is the same, so that nothing else would open it
  else go("run", run);
}

/** Opens a run: attaches to it while it is active, else replays it. */
async function openRun(run) {
  if (page.live !== null && page.run === run) return;
  say("");
  let kept = null;
  try {
    kept = await getJson(`/v1/runs/${run}`);
  } catch (error) {
    if (error.wantsKey && error.status === 401) {
      page.onkey(error);
      return;
    }
    // A run without artifacts, or a key that may not read them: its events may still be there.
    await attach(run, null);
    return;
  }
  if (kept.active) {
    await attach(run, kept);
    return;
  }
  const replay = new Replay(kept.frames);
  replay.speed = Number(at("speed").value);
  page.live?.leave();
  Object.assign(page, { live: null, replay, story: replay.story, run, state: "past", attached: false, frames: kept.frames });
  at("seek").max = String(Math.ceil(replay.length));
  details.showRun(kept);
  past.mark(run);
  controls();
  draw();
  at("axis-title").scrollIntoView({ block: "nearest" });
}

async function save(kind) {
  const name = page.run || "run";
  if (kind === "ndjson") {
    saveLines(name, page.frames);
    return;
  }
  try {
    saveJson(name, await getJson(`/v1/runs/${page.run}`));
  } catch {
    saveJson(name, { id: page.run, frames: page.frames }); // without artifacts, what was read
  }
}

function togglePlay() {
  if (page.replay.playing) page.replay.pause();
  else page.replay.play();
  controls();
  draw();
}

// ── display ────────────────────────────────────────────────────────────

function say(message) {
  at("notice").textContent = message;
  at("notice").hidden = message === "";
}

function controls() {
  const live = page.live !== null && page.state !== "ended" && page.state !== "failed";
  form.disable(live);
  past.disable(live && !page.attached);
  for (const control of [at("run-json"), at("run-ndjson")]) control.disabled = page.run === "";
  at("pause").disabled = !live || !["running", "paused"].includes(page.state);
  at("pause").textContent = page.state === "paused" ? "Resume" : "Pause";
  at("pause").setAttribute("aria-pressed", String(page.state === "paused"));
  at("abort").disabled = !live || !page.live.id;
  at("replay").hidden = page.replay === null;
  at("play").textContent = page.replay?.playing ? "Stop" : "Play";
}

function draw() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(paint);
}

function paint() {
  asked = false;
  const { replay } = page;
  if (replay !== null) {
    const playing = replay.playing;
    replay.tick();
    page.story = replay.story;
    at("seek").value = String(replay.now);
    at("seek").setAttribute("aria-valuetext", spoken(replay.now));
    if (playing && !replay.playing) controls();
  }
  const live = page.live !== null && !page.story.done && page.state !== "failed";
  const now = live ? sinceStart() : (replay?.now ?? page.story.last);
  const whole = replay === null ? now : Math.max(now, replay.length);
  const empty = ["idle", "refused"].includes(page.state);
  at("empty").hidden = !empty;
  at("chart").hidden = at("zoom").parentElement.hidden = empty;
  chart.draw(page.story, now, live, whole);
  text.refresh(page.story);
  result.refresh(page.story);
  details.refresh();
  status(now);
  if (live || replay?.playing) draw();
}

function keptState() {
  const whole = page.story.done || page.replay.now < page.replay.length;
  return whole ? "recorded" : "recorded, unfinished";
}

function status(now) {
  const { story, state } = page;
  at("state").textContent = state === "past" ? keptState() : (STATES[state] ?? "ready");
  at("state").dataset.state = state;
  at("run").textContent = page.run || "none";
  at("events").textContent = String(story.events);
  at("elapsed").textContent = at("chart").hidden ? "–" : spoken(now);
  const paused = story.spans.filter((span) => span.kind === "paused");
  const long = paused.reduce((sum, span) => sum + (span.end ?? now) - span.start, 0);
  at("pauses").textContent = paused.length === 0 ? "none" : `${paused.length} (${spoken(long)})`;
}

// ── the view ─────────────────────────────────────────────────────────────────

/** Shows the view; `onkey(error)` asks for a key. */
export function enterRuns(run, onkey) {
  page.onkey = onkey;
  past.refresh();
  draw();
  if (run && run !== page.run) openRun(run);
  clearInterval(timer);
  timer = setInterval(() => past.refresh(), REFRESH);
}

export function leaveRuns() {
  clearInterval(timer);
}

/** Fills in the models; throws if the key is refused. */
export async function offerModels() {
  try {
    await form.offerModels();
  } catch (error) {
    if (error.wantsKey) {
      past.wait();
      throw error;
    }
    say(`The models cannot be listed: ${error.message}`);
  }
}

at("pause").addEventListener("click", togglePause);
at("abort").addEventListener("click", abort);
at("play").addEventListener("click", togglePlay);
at("run-json").addEventListener("click", () => save("json"));
at("run-ndjson").addEventListener("click", () => save("ndjson"));
at("zoom").addEventListener("change", () => {
  chart.zoom(Number(at("zoom").value));
  draw();
});
at("refresh").addEventListener("click", () => past.refresh());
at("speed").addEventListener("change", () => {
  if (page.replay !== null) page.replay.speed = Number(at("speed").value);
});
at("seek").addEventListener("input", () => {
  page.replay.pause();
  page.replay.seek(Number(at("seek").value));
  controls();
  draw();
});
new ResizeObserver(draw).observe(at("chart"));
details.refresh();
controls();
draw();
