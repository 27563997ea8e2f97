// splat::rasterize on the CPU.
#include "rasterize_tiles.h"

namespace splat {
namespace cpu {

void rasterize(const RasterizeInputs& in, const RasterizeOutputs& out) {
  const auto records = gaussian_records(in);
  const BlockScene scene = block_scene(in, records.get());
  const BlockImages images = {out.colors, out.alphas, out.last_ids};
  const auto rasterize_block = SPLAT_FOR_INSTRUCTION_SET(rasterize_block);
  for_each_tile(in, [&](int64_t, int64_t, const auto& blocks) {
    blocks([&](const BlockJob& job) { rasterize_block(scene, job, images); });
  });
}

}  // namespace cpu
}  // namespace splat
