// The page: the scene goes to the worker, the camera's movements to the renderer, and nothing is drawn while nothing
// changes. What the page is doing stands in the body's data-state: loading, moving, resting or failed.

// More pixels than these are not drawn, but the picture enlarged.
const MOST_PIXELS = 3840 * 2160;

const textOf = (id) => document.getElementById(id).textContent;
const canvas = document.querySelector("canvas");
const view = JSON.parse(textOf("view"));

function fail(text) {
  document.body.dataset.state = "failed";
  document.querySelector("p[role]").textContent = text;
}

function startWorker() {
  const address = URL.createObjectURL(new Blob([textOf("worker")], { type: "text/javascript" }));
  const worker = new Worker(address);
  worker.onerror = () => fail("This browser does not let the page start the worker that unpacks its scene.");
  return worker;
}

// The next message of the worker; what goes wrong there is an error here.
function answer(worker) {
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }) => {
      if (data.error) reject(new Error(`the scene in it is damaged: ${data.error}`));
      else resolve(data);
    };
  });
}

async function unpacked(worker) {
  const element = document.getElementById("scene");
  worker.postMessage({ text: element.textContent, layout: view.texture });
  element.remove();
  return answer(worker);
}

function show(renderer, worker) {
  const { camera } = view;
  const first = firstPose(view);
  let pose = first;
  let size = "";
  let [ready, sorting, stale, drawing, asked] = [false, false, false, false, false];

  const tell = () => {
    if (document.body.dataset.state === "failed") return;
    document.body.dataset.state = !ready ? "loading" : sorting || drawing ? "moving" : "resting";
  };

  const draw = () => {
    if (!ready || !size) return;
    renderer.draw(pose, intrinsics(camera, canvas.width, canvas.height), camera.near);
  };

  // One picture at a time, too, or a slow graphics card would get ever further behind.
  const redraw = () => {
    asked = true;
    tell();
    if (drawing) return;
    drawing = true;
    requestAnimationFrame(async () => {
      asked = false;
      draw();
      await renderer.finished();
      drawing = false;
      if (asked) redraw();
      tell();
    });
  };

  // One sort at a time: while it runs, the picture is drawn in the order before.
  const sort = async () => {
    stale = true;
    if (sorting) return;
    sorting = true;
    while (stale) {
      stale = false;
      worker.postMessage({ row: pose.turn[2].map(Math.fround), shift: Math.fround(pose.shift[2]), near: camera.near });
      renderer.sorted((await answer(worker)).order);
      ready = true;
      redraw();
    }
    sorting = false;
    tell();
  };

  const place = (next) => {
    pose = next;
    sort();
    redraw();
  };

  const fit = () => {
    const sides = [canvas.clientWidth, canvas.clientHeight].map((side) => side * devicePixelRatio);
    const scale = Math.min(1, Math.sqrt(MOST_PIXELS / (sides[0] * sides[1])));
    const [width, height] = sides.map((side) => Math.round(side * scale));
    if (width < 1 || height < 1 || String([width, height]) === size) return;
    size = String([width, height]);
    renderer.resize(width, height);
    draw(); // at once: the canvas is empty now
  };
  new ResizeObserver(fit).observe(canvas);
  window.addEventListener("resize", fit); // on another screen, the same window may have more pixels
  listen(canvas, camera, (change) => place(change(pose)), () => place(first));
  place(first);
}

async function main() {
  if (typeof DecompressionStream === "undefined") {
    return fail("This browser cannot unpack the scene: it has no DecompressionStream, which browsers have since 2023.");
  }
  const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false });
  if (!gl) return fail("This browser cannot draw the scene: it has no WebGL2, or it is switched off.");
  const lost = "The browser took the graphics memory away; reload the page.";
  canvas.addEventListener("webglcontextlost", () => fail(lost));
  try {
    const worker = startWorker();
    const scene = await unpacked(worker);
    const shaders = { vertex: textOf("vertex"), fragment: textOf("fragment") };
    show(makeRenderer(gl, shaders, view.texture, scene, view.background), worker);
  } catch (error) {
    fail(`This browser cannot draw the scene: ${error.message}.`);
  }
}

main();
