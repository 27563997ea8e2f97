// Drawing with WebGL2: each Gaussian is a quad, blended over those behind it, into a picture of half floats, since 8
// bits would be rounded much more at every layer; then the picture is copied to the canvas.

const COPY_VERTEX = `void main() {
  gl_Position = vec4(4.0 * vec2(gl_VertexID & 1, gl_VertexID >> 1) - 1.0, 0.0, 1.0);
}`;
// The shaders count rows from the top, WebGL from the bottom.
const COPY_FRAGMENT = `uniform sampler2D picture;
out vec4 pixel;
void main() {
  ivec2 at = ivec2(gl_FragCoord.xy);
  pixel = vec4(texelFetch(picture, ivec2(at.x, textureSize(picture, 0).y - 1 - at.y), 0).rgb, 1.0);
}`;

function makeProgram(gl, vertex, fragment, constants = {}) {
  const start = ["#version 300 es", ...Object.entries(constants).map(([name, value]) => `#define ${name} ${value}`)];
  const head = [...start, "precision highp float;", "precision highp int;", ""].join("\n");
  const program = gl.createProgram();
  for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
    const shader = gl.createShader(kind);
    gl.shaderSource(shader, head + text);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
    if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS) && !gl.isContextLost()) {
      throw new Error(`its graphics driver refuses a shader: ${gl.getShaderInfoLog(shader)}`);
    }
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
    throw new Error(`its graphics driver refuses a program: ${gl.getProgramInfoLog(program)}`);
  }
  return { program, place: (name) => gl.getUniformLocation(program, name) };
}

function makeTexture(gl, unit, format, width, height) {
  const texture = gl.createTexture();
  gl.activeTexture(gl.TEXTURE0 + unit);
  gl.bindTexture(gl.TEXTURE_2D, texture);
  gl.texStorage2D(gl.TEXTURE_2D, 1, format, width, height);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MIN_FILTER, gl.NEAREST);
  gl.texParameteri(gl.TEXTURE_2D, gl.TEXTURE_MAG_FILTER, gl.NEAREST);
  return texture;
}

// `shaders` are texts, `scene` what the worker unpacked. The result has `sorted(order)`, `resize(width, height)`,
// `draw(pose, lens, near)`, and `finished()` for when that is done.
function makeRenderer(gl, shaders, layout, scene, background) {
  if (gl.getParameter(gl.MAX_TEXTURE_SIZE) < layout.side) {
    throw new Error(`its graphics driver has no textures of ${layout.side} pixels a side`);
  }
  const floats = gl.getExtension("EXT_color_buffer_float") ?? gl.getExtension("EXT_color_buffer_half_float");
  const constants = { DEGREE: scene.degree, ANTIALIASED: scene.antialiased, TEXELS: layout.texels, SIDE: layout.side };
  constants.STEP = floats ? "(1.0 / 2048.0)" : "(1.0 / 255.0)";
  const gaussians = makeProgram(gl, shaders.vertex, shaders.fragment, constants);
  const copy = makeProgram(gl, COPY_VERTEX, COPY_FRAGMENT);
  const rows = scene.words.length / (4 * layout.side);
  makeTexture(gl, 0, gl.RGBA32UI, layout.side, rows);
  gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, layout.side, rows, gl.RGBA_INTEGER, gl.UNSIGNED_INT, scene.words);
  if (gl.getError() === gl.OUT_OF_MEMORY) throw new Error("its graphics memory is too small for it");
  const buffer = gl.createBuffer();
  const lists = gl.createVertexArray();
  gl.bindVertexArray(lists);
  gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
  const input = gl.getAttribLocation(gaussians.program, "gaussian");
  gl.enableVertexAttribArray(input);
  gl.vertexAttribIPointer(input, 1, gl.UNSIGNED_INT, 0, 0);
  gl.vertexAttribDivisor(input, 1);
  const frame = gl.createFramebuffer();
  gl.disable(gl.DITHER);
  // The corners of a quad have the same values, so the driver may take those of whichever is fastest for it.
  const provoking = gl.getExtension("WEBGL_provoking_vertex");
  provoking?.provokingVertexWEBGL(provoking.FIRST_VERTEX_CONVENTION_WEBGL);
  gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  let [picture, count] = [null, 0];

  function sorted(order) {
    count = order.length;
    gl.bufferData(gl.ARRAY_BUFFER, order, gl.DYNAMIC_DRAW);
  }

  function resize(width, height) {
    [gl.canvas.width, gl.canvas.height] = [width, height];
    gl.deleteTexture(picture);
    picture = makeTexture(gl, 1, floats ? gl.RGBA16F : gl.RGBA8, width, height);
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, picture, 0);
    gl.viewport(0, 0, width, height);
  }

  function draw(pose, lens, near) {
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
    gl.clearColor(...background, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.enable(gl.BLEND);
    gl.useProgram(gaussians.program);
    gl.uniform1i(gaussians.place("scene"), 0);
    gl.uniformMatrix3fv(gaussians.place("turn"), true, pose.turn.flat());
    gl.uniform3fv(gaussians.place("shift"), pose.shift);
    gl.uniform3fv(gaussians.place("eye"), eyeOf(pose));
    for (const name of ["focal", "principal", "size"]) gl.uniform2fv(gaussians.place(name), lens[name]);
    gl.uniform1f(gaussians.place("near"), near);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, count);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.disable(gl.BLEND);
    gl.useProgram(copy.program);
    gl.uniform1i(copy.place("picture"), 1);
    gl.drawArrays(gl.TRIANGLES, 0, 3);
  }

  // When what was asked for is drawn; the browser knows it between two tasks only.
  async function finished() {
    const fence = gl.fenceSync(gl.SYNC_GPU_COMMANDS_COMPLETE, 0);
    gl.flush();
    while (!gl.isContextLost() && gl.getSyncParameter(fence, gl.SYNC_STATUS) !== gl.SIGNALED) {
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    gl.deleteSync(fence);
  }

  return { sorted, resize, draw, finished };
}
