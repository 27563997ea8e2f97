// The camera, and the hands that move it.
//
// A pose is { turn, shift, target, distance, up }: the rows of the rotation from the scene's axes to the camera's (x
// right, y down, z forward) and its translation; the point around which it orbits, in the middle of what it sees, how
// far away that is, and the direction that stays upright.

const dot = (a, b) => a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
const cross = (a, b) => [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]];
// a + s b
const along = (a, s, b) => a.map((value, i) => value + s * b[i]);
const unit = (a) => a.map((value) => value / Math.hypot(...a));
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

// Files of cameras have y down and z forward, .spz files y up and z back.
const inSceneAxes = ([x, y, z]) => [x, -y, -z];

const eyeOf = ({ turn, shift }) => [0, 1, 2].map((i) => -dot(turn.map((row) => row[i]), shift));

function firstPose({ camera, around, up }) {
  const rows = camera.viewmat.slice(0, 3);
  const [turn, shift] = [rows.map(inSceneAxes), rows.map((row) => row[3])];
  const distance = Math.max(dot(turn[2], inSceneAxes(around)) + shift[2], camera.near);
  const target = along(eyeOf({ turn, shift }), distance, turn[2]);
  return { turn, shift, target, distance, up: up ? inSceneAxes(up) : turn[1].map((value) => -value) };
}

// The pose with the target in the middle again; rounding must not bend the axes.
function settled(pose) {
  const forward = unit(pose.turn[2]);
  const right = unit(along(pose.turn[0], -dot(pose.turn[0], forward), forward));
  const turn = [right, cross(forward, right), forward];
  const shift = turn.map((row, i) => (i === 2 ? pose.distance : 0) - dot(row, pose.target));
  return { ...pose, turn, shift };
}

// Around the target: by `yaw` about the upright direction, and up or down by `pitch`, not over the poles.
function orbited(pose, yaw, pitch) {
  const [right, down, forward] = pose.turn;
  const height = Math.asin(clamp(dot(forward, pose.up), -1, 1));
  const most = Math.max(Math.PI / 2 - 0.01, Math.abs(height));
  const angle = clamp(height + pitch, -most, most) - height;
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  const pitched = [right, along(down.map((v) => c * v), s, forward), along(forward.map((v) => c * v), -s, down)];
  return settled({ ...pose, turn: pitched.map((row) => rotated(row, pose.up, yaw)) });
}

// A vector turned about an axis of length 1 (Rodrigues).
function rotated(vector, axis, angle) {
  const [c, s] = [Math.cos(angle), Math.sin(angle)];
  const turned = along(vector.map((value) => c * value), s, cross(axis, vector));
  return along(turned, (1 - c) * dot(axis, vector), axis);
}

// The picture follows the hand by (x, y), in units of the distance.
function panned(pose, x, y) {
  const target = along(along(pose.target, -x * pose.distance, pose.turn[0]), -y * pose.distance, pose.turn[1]);
  return settled({ ...pose, target });
}

// Nearer or further; what is seen at (x, y), in units of the distance from the picture's middle, stays there.
function zoomed(pose, factor, near, [x, y] = [0, 0]) {
  const distance = clamp(pose.distance * factor, near, 1e6 * near);
  const closer = pose.distance - distance;
  const target = along(along(pose.target, x * closer, pose.turn[0]), y * closer, pose.turn[1]);
  return settled({ ...pose, target, distance });
}

// Focal lengths, principal point and size in pixels: all of the camera's own picture is seen, whatever the shape of the
// window, as `Camera.of_size` has it.
function intrinsics(camera, width, height) {
  const scale = Math.min(width / camera.width, height / camera.height);
  const [[fx, , cx], [, fy, cy]] = camera.K;
  return {
    focal: [fx * scale, fy * scale],
    principal: [width / 2 + (cx - camera.width / 2) * scale, height / 2 + (cy - camera.height / 2) * scale],
    size: [width, height],
  };
}

// Calls `move` with what makes a new pose of the old one, and `home` to go back to the first.
function listen(canvas, camera, move, home) {
  const pointers = new Map();
  const side = () => Math.min(canvas.clientWidth, canvas.clientHeight);
  const lens = () => intrinsics(camera, canvas.clientWidth, canvas.clientHeight);
  const orbit = (x, y) => move((pose) => orbited(pose, (-Math.PI * x) / side(), (-Math.PI * y) / side()));
  // Lengths on the canvas become those at the target, in units of its distance.
  const pan = (x, y) => move((pose) => panned(pose, x / lens().focal[0], y / lens().focal[1]));
  const zoom = (factor, place) => move((pose) => zoomed(pose, factor, camera.near, place));
  const placeOf = ({ x, y }) => [x, y].map((value, i) => (value - lens().principal[i]) / lens().focal[i]);

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    const pans = event.button !== 0 || event.shiftKey || event.ctrlKey || event.metaKey;
    pointers.set(event.pointerId, { x: event.clientX, y: event.clientY, pans });
  });
  canvas.addEventListener("pointermove", (event) => {
    const pointer = pointers.get(event.pointerId);
    if (!pointer) return;
    const before = hand(pointers);
    [pointer.x, pointer.y] = [event.clientX, event.clientY];
    const after = hand(pointers);
    (pointer.pans || pointers.size > 1 ? pan : orbit)(after.x - before.x, after.y - before.y);
    if (before.spread && after.spread) zoom(before.spread / after.spread, placeOf(after));
  });
  for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) {
    canvas.addEventListener(name, (event) => pointers.delete(event.pointerId));
  }
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    // Pixels, lines or pages; a pinch on a touchpad comes as small steps with ctrl.
    const lines = event.deltaY * [1, 30, 300][event.deltaMode] * (event.ctrlKey ? 5 : 1);
    zoom(Math.exp(clamp(lines, -300, 300) / 600));
  }, { passive: false });

  const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  window.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (steps[event.key]) {
      const [x, y] = steps[event.key].map((step) => (step * side()) / 24);
      (event.shiftKey ? pan : orbit)(x, y);
    } else if (event.key === "+" || event.key === "-") zoom(event.key === "+" ? 0.9 : 1 / 0.9);
    else if (event.key === "Home") home();
    else return;
    event.preventDefault();
  });
}

// The middle of all fingers, and their mean distance from it.
function hand(pointers) {
  const all = [...pointers.values()];
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / all.length;
  const [x, y] = [mean(all.map((one) => one.x)), mean(all.map((one) => one.y))];
  return { x, y, spread: mean(all.map((one) => Math.hypot(one.x - x, one.y - y))) };
}
