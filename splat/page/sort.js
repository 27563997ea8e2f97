// The worker: it unpacks the scene once, then sorts it by depth whenever the camera has moved.

let sorter = null;

self.onmessage = async ({ data }) => {
  try {
    if (data.text === undefined) {
      const order = sorter(data.row, data.shift, data.near);
      self.postMessage({ order }, [order.buffer]);
      return;
    }
    const { means, words, count, degree, antialiased } = await unpackScene(data.text, data.layout);
    sorter = makeSorter(means);
    self.postMessage({ words, count, degree, antialiased }, [words.buffer]);
  } catch (error) {
    self.postMessage({ error: String(error.message ?? error) });
  }
};

// A function that lists the Gaussians in front of the near plane, the furthest first. Depths are rounded at every step
// as in the kernels, and equal ones keep the kernels' order, so the lists are the same. The bits of positive floats are
// in their order: two passes of a radix sort, of 16 bits each, are exact.
function makeSorter(means) {
  const count = means.length / 3;
  const depths = new Float32Array(count);
  const keys = new Uint32Array(depths.buffer);
  const [indices, halfIndices, halfKeys] = [0, 1, 2].map(() => new Uint32Array(count));
  const [low, high] = [new Uint32Array(65536), new Uint32Array(65536)];
  const round = Math.fround;

  return ([x, y, z], shift, near) => {
    low.fill(0);
    high.fill(0);
    let kept = 0;
    for (let i = 0, at = 0; i < count; ++i, at += 3) {
      const turned = round(round(round(x * means[at]) + round(y * means[at + 1])) + round(z * means[at + 2]));
      depths[kept] = turned + shift;
      if (!(depths[kept] >= near)) continue;
      indices[kept] = i;
      ++low[keys[kept] & 65535];
      ++high[keys[kept] >>> 16];
      ++kept;
    }
    sumBefore(low);
    sumBefore(high);
    for (let i = 0; i < kept; ++i) {
      const place = low[keys[i] & 65535]++;
      halfIndices[place] = indices[i];
      halfKeys[place] = keys[i];
    }
    const order = new Uint32Array(kept);
    for (let i = 0; i < kept; ++i) order[kept - 1 - high[halfKeys[i] >>> 16]++] = halfIndices[i];
    return order;
  };
}

// Each count becomes the sum of those before it.
function sumBefore(counts) {
  let sum = 0;
  for (let i = 0; i < counts.length; ++i) {
    const here = counts[i];
    counts[i] = sum;
    sum += here;
  }
}
