// Unpacking the scene, in the worker: an .spz file of version 3 (github.com/nianticlabs/spz), which is a gzip stream of
// a header and of each attribute for all Gaussians. Values stay the bytes that they are; the shader makes numbers of
// them.

const HEADER_BYTES = 16;

function bytesOfBase64(text) {
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; ++i) bytes[i] = letters.charCodeAt(i);
  return bytes;
}

// What a gzip stream holds, if that is `size(start)` bytes: not a byte more is kept.
async function inflate(packed, size) {
  const reader = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  let bytes = new Uint8Array(HEADER_BYTES);
  let filled = 0;
  let known = false;
  for (;;) {
    let { done, value: piece } = await reader.read();
    if (done) break;
    while (piece.length) {
      if (filled === bytes.length && known) throw new Error("it holds more than its header says");
      if (filled === bytes.length) {
        const whole = new Uint8Array(size(bytes));
        whole.set(bytes);
        bytes = whole;
        known = true;
        continue;
      }
      const part = piece.subarray(0, bytes.length - filled);
      bytes.set(part, filled);
      filled += part.length;
      piece = piece.subarray(part.length);
    }
  }
  if (!known || filled < bytes.length) throw new Error("it is truncated");
  return bytes;
}

function readHeader(bytes, layout) {
  const fields = new DataView(bytes.buffer, 0, HEADER_BYTES);
  const [magic, version, count] = [0, 4, 8].map((at) => fields.getUint32(at, true));
  const [degree, fractionalBits] = [bytes[12], bytes[13]];
  if (magic !== 0x5053474e || version !== 3 || degree > 4) throw new Error("it is no .spz file of version 3");
  if (count * layout.texels > layout.side ** 2) throw new Error("it has too many Gaussians");
  const antialiased = bytes[14] & 1;
  return { count, degree, fractionalBits, antialiased, harmonics: 3 * ((degree + 1) ** 2 - 1) };
}

const bytesEach = (header) => 9 + 1 + 3 + 3 + 4 + header.harmonics;

// The texture's words, `texels` texels of 4 for each Gaussian: its centre as floats, its rotation, and its bytes in the
// order that the shader expects. Machines with browsers have their low bytes first, as the file has.
function arrange(bytes, header, layout) {
  const { count, harmonics } = header;
  const words = new Uint32Array(4 * layout.side * Math.ceil((count * layout.texels) / layout.side));
  const [floats, octets] = [new Float32Array(words.buffer), new Uint8Array(words.buffer)];
  const means = new Float32Array(3 * count);
  const starts = [HEADER_BYTES];
  for (const width of [9, 1, 3, 3, 4]) starts.push(starts.at(-1) + width * count);
  const [positions, alphas, colors, scales, rotations, rest] = starts;
  const step = 2 ** -header.fractionalBits;
  for (let i = 0; i < count; ++i) {
    const word = 4 * layout.texels * i;
    for (let axis = 0; axis < 3; ++axis) {
      const at = positions + 9 * i + 3 * axis;
      // Shifted up and down again, the sign of the 24 bits comes along.
      means[3 * i + axis] = (((bytes[at] << 8) | (bytes[at + 1] << 16) | (bytes[at + 2] << 24)) >> 8) * step;
      floats[word + axis] = means[3 * i + axis];
    }
    const octet = 4 * word + 16;
    copy(bytes, rotations + 4 * i, octets, octet - 4, 4);
    octets[octet] = bytes[alphas + i];
    copy(bytes, scales + 3 * i, octets, octet + 1, 3);
    copy(bytes, colors + 3 * i, octets, octet + 4, 3);
    copy(bytes, rest + harmonics * i, octets, octet + 8, harmonics);
  }
  return { words, means };
}

function copy(from, at, to, place, size) {
  for (let i = 0; i < size; ++i) to[place + i] = from[at + i];
}

async function unpackScene(text, layout) {
  let header = null;
  const bytes = await inflate(bytesOfBase64(text), (start) => {
    header = readHeader(start, layout);
    return HEADER_BYTES + header.count * bytesEach(header);
  });
  return { ...header, ...arrange(bytes, header, layout) };
}
