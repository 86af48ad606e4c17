/** Connects the parts of the page: one run at a time, live or replayed. */
import { Chart } from "./chart.js";
import { LiveRun, getJson, setKey } from "./client.js";
import { Details } from "./details.js";
import { OrderForm } from "./form.js";
import { ResultPane, TextPane } from "./panes.js";
import { PastRuns } from "./past.js";
import { Replay } from "./replay.js";
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

const page = { story: new Story(), live: null, replay: null, began: 0, state: "idle", run: "" };
let asked = false;

const chart = new Chart(at("chart"), select);
const details = new Details(at("details"), (item, value) => page.live.answer(item.id, value));
const text = new TextPane(at("text"), select);
const result = new ResultPane(at("result"));
const form = new OrderForm(at("order"), start);
const past = new PastRuns(at("past"), open);

function select(item) {
  chart.select(item);
  details.show(item);
}

// ── a live run ───────────────────────────────────────────────────────────────

function sinceStart() {
  return performance.now() - page.began;
}

async function start(body, pace) {
  const story = new Story();
  const live = new LiveRun(
    (event) => {
      story.feed(sinceStart(), event.name, event.data);
      draw();
    },
    (state) => change(story, state),
  );
  Object.assign(page, { story, live, replay: null, began: performance.now(), run: "" });
  details.showRun(null);
  past.mark("");
  say("");
  change(story, "connecting");
  try {
    await live.run(body, pace);
  } catch (error) {
    fail(story, error);
  }
  page.live = null;
  controls();
  // The last artifacts are written just after the last event.
  setTimeout(() => past.refresh(), 300);
}

function change(story, state) {
  page.state = state;
  page.run = page.live?.id ?? page.run;
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
  if (error.wantsKey) askForKey(error);
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

async function open(run) {
  say("");
  let kept;
  try {
    kept = await getJson(`/v1/runs/${run}`);
  } catch (error) {
    say(`${run} cannot be opened: ${error.message}`);
    return;
  }
  const replay = new Replay(kept.frames);
  replay.speed = Number(at("speed").value);
  Object.assign(page, { replay, story: replay.story, run, state: "past" });
  at("seek").max = String(Math.ceil(replay.length));
  details.showRun(kept);
  past.mark(run);
  controls();
  draw();
  at("axis-title").scrollIntoView({ block: "nearest" });
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
  past.disable(live);
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

// ── the key ──────────────────────────────────────────────────────────────────

function askForKey(error) {
  // Before the first key there is no error; the heading is enough.
  at("key-problem").textContent = error.status === 403 ? error.message : "";
  past.wait();
  at("key-form").hidden = false;
  at("key").focus();
}

async function arrive() {
  try {
    await form.offerModels();
    at("key-form").hidden = true;
  } catch (error) {
    if (error.wantsKey) {
      askForKey(error);
      return;
    }
    say(`The models cannot be listed: ${error.message}`);
  }
  await past.refresh();
}

at("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setKey(at("key").value.trim());
  at("key").value = "";
  arrive();
});
at("pause").addEventListener("click", togglePause);
at("abort").addEventListener("click", abort);
at("play").addEventListener("click", togglePlay);
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
arrive();
