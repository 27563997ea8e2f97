// A corner of the quad that covers one Gaussian: EWA splatting (Zwicker et al. 2002, "EWA Splatting", section 5) with
// the numbers of splat's own kernels, so that the picture is theirs. Pixels are counted from the upper left corner.

const float MIN_ALPHA = 1.0 / 255.0;
const float MAX_EXTENT = 3.33;  // standard deviations
const float BLUR = $eps2d;         // added to the variances in the image, pixels^2
const float MARGIN = 0.3;       // how far outside, in half images, the projection is linearised

uniform highp usampler2D scene;
uniform mat3 turn;  // from the scene's axes to the camera's: x right, y down, z forward
uniform vec3 shift, eye;
uniform vec2 focal, principal, size;  // pixels
uniform float near;
in uint gaussian;
flat out vec2 centre;
flat out vec3 conic;
flat out vec4 colour;
flat out float chance;

// The bytes of a Gaussian behind its centre and its rotation: opacity, scales, colour, one unused, harmonics.
uint words[4 * (TEXELS - 1)];

float value_of(int at) { return float((words[at >> 2] >> (8 * (at & 3))) & 255u); }

uvec4 texel(int at) {
  int index = int(gaussian) * TEXELS + at;
  return texelFetch(scene, ivec2(index % SIDE, index / SIDE), 0);
}

// Which of x, y, z, w is the largest, in 2 bits, and each of the others: its sign and 9 bits of its size.
vec4 quaternion(uint word) {
  vec3 three;
  for (int i = 0; i < 3; ++i) {
    uint field = word >> (20 - 10 * i);
    three[i] = float(field & 511u) * (sqrt(0.5) / 511.0) * ((field & 512u) != 0u ? -1.0 : 1.0);
  }
  float largest = sqrt(max(0.0, 1.0 - dot(three, three)));
  uint which = word >> 30;
  if (which == 0u) return vec4(largest, three);
  if (which == 1u) return vec4(three.x, largest, three.yz);
  if (which == 2u) return vec4(three.xy, largest, three.z);
  return vec4(three, largest);
}

mat3 rotation(vec4 q) {
  vec3 d = q.xyz + q.xyz;
  vec3 w = d * q.w, x = d * q.x, y = d * q.y, z = d * q.z;
  return mat3(1.0 - y.y - z.z, x.y + w.z, x.z - w.y,
              x.y - w.z, 1.0 - x.x - z.z, y.z + w.x,
              x.z + w.y, y.z - w.x, 1.0 - x.x - y.y);
}

vec3 coefficient(int k) {
  int at = 5 + 3 * k;
  return (vec3(value_of(at), value_of(at + 1), value_of(at + 2)) - 128.0) / 128.0;
}

// Real spherical harmonics, in the order of 3D Gaussian splatting (Sloan 2013, "Efficient Spherical Harmonic
// Evaluation").
vec3 seen_from(vec3 d) {
  vec3 sum = (vec3(value_of(4), value_of(5), value_of(6)) / 255.0 - 0.5) / 0.15 * 0.28209479177387814;
#if DEGREE > 0
  float x = d.x, y = d.y, z = d.z;
  sum += 0.4886025119029199 * (z * coefficient(2) - y * coefficient(1) - x * coefficient(3));
#endif
#if DEGREE > 1
  float xx = x * x, yy = y * y, zz = z * z, xy = x * y, yz = y * z, xz = x * z;
  sum += 1.0925484305920792 * (xy * coefficient(4) - yz * coefficient(5) - xz * coefficient(7));
  sum += (0.9461746957575601 * zz - 0.31539156525252005) * coefficient(6);
  sum += 0.5462742152960396 * (xx - yy) * coefficient(8);
#endif
#if DEGREE > 2
  float five = 5.0 * zz - 1.0;
  sum -= 0.5900435899266435 * (y * (3.0 * xx - yy) * coefficient(9) + x * (xx - 3.0 * yy) * coefficient(15));
  sum -= 0.4570457994644658 * five * (y * coefficient(11) + x * coefficient(13));
  sum += 2.890611442640554 * xy * z * coefficient(10);
  sum += 0.3731763325901154 * z * (5.0 * zz - 3.0) * coefficient(12);
  sum += 1.445305721320277 * z * (xx - yy) * coefficient(14);
#endif
#if DEGREE > 3
  float seven = 7.0 * zz;
  sum += 2.5033429417967046 * xy * (xx - yy) * coefficient(16);
  sum -= 1.7701307697799304 * (yz * (3.0 * xx - yy) * coefficient(17) + xz * (xx - 3.0 * yy) * coefficient(23));
  sum += 0.9461746957575601 * xy * (seven - 1.0) * coefficient(18);
  sum -= 0.6690465435572892 * (seven - 3.0) * (yz * coefficient(19) + xz * coefficient(21));
  sum += 0.10578554691520431 * ((35.0 * zz - 30.0) * zz + 3.0) * coefficient(20);
  sum += 0.47308734787878004 * (xx - yy) * (seven - 1.0) * coefficient(22);
  sum += 0.6258357354491761 * (xx * (xx - 3.0 * yy) - yy * (3.0 * xx - yy)) * coefficient(24);
#endif
  return max(vec3(0.0), sum + 0.5);
}

void main() {
  gl_Position = vec4(2.0, 2.0, 2.0, 1.0);  // outside, so that nothing is drawn
  uvec4 first = texel(0);
  vec3 mean = uintBitsToFloat(first.xyz);
  vec3 seen = turn * mean + shift;
  if (!(seen.z >= near)) return;
  for (int i = 1; i < TEXELS; ++i) {
    uvec4 more = texel(i);
    for (int j = 0; j < 4; ++j) words[4 * i - 4 + j] = more[j];
  }
  float opacity = value_of(0) / 255.0;

  // The rows of the projection's Jacobian, at a point not far outside of the image.
  vec2 margin = MARGIN * 0.5 * size / focal;
  vec2 at = clamp(seen.xy / seen.z, -principal / focal - margin, (size - principal) / focal + margin);
  vec2 slope = focal / seen.z;
  mat3 axes = turn * rotation(quaternion(first.w));
  vec3 frame_x = vec3(slope.x, 0.0, -slope.x * at.x) * axes;
  vec3 frame_y = vec3(0.0, slope.y, -slope.y * at.y) * axes;
  vec3 scales = exp(vec3(value_of(1), value_of(2), value_of(3)) / 16.0 - 10.0);
  vec3 spread_x = frame_x * scales * scales, spread_y = frame_y * scales * scales;
  float xx = dot(frame_x, spread_x) + BLUR, xy = dot(frame_x, spread_y), yy = dot(frame_y, spread_y) + BLUR;
  // By Cauchy and Binet, which does not cancel for needles as xx yy - xy xy would.
  float sharp = max(0.0, dot(cross(frame_x, frame_y), cross(spread_x, spread_y)));
  float determinant = sharp + BLUR * (xx + yy - BLUR);
  if (!(determinant > 0.0) || isinf(determinant)) return;
#if ANTIALIASED
  opacity *= sqrt(sharp / determinant);  // what the blur adds in area (Yu et al. 2024, "Mip-Splatting")
#endif
  if (!(opacity >= MIN_ALPHA)) return;

  centre = focal * (seen.xy / seen.z) + principal;
  float reach = min(MAX_EXTENT, sqrt(2.0 * log(opacity / MIN_ALPHA)));
  vec2 radius = ceil(reach * sqrt(vec2(xx, yy)));
  if (any(lessThanEqual(centre + radius, vec2(0.0))) || any(greaterThanEqual(centre - radius, size))) return;
  conic = vec3(yy, -xy, xx) / determinant;
  colour = vec4(seen_from(normalize(mean - eye)), opacity);
  chance = float(gaussian * 2654435769u >> 8) / 16777216.0;  // Knuth, 6.4: products spread

  // The quad lies along the ellipse's axes: the eigenvectors of the covariance in the image.
  float half_difference = 0.5 * (xx - yy);
  float long_variance = 0.5 * (xx + yy) + length(vec2(half_difference, xy));
  vec2 along = half_difference > 0.0 ? vec2(long_variance - yy, xy) : vec2(xy, long_variance - xx);
  along = dot(along, along) > 0.0 ? normalize(along) : vec2(1.0, 0.0);
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1) * 2.0 - 1.0;
  vec2 reaches = corner * (1.001 * reach) * sqrt(vec2(long_variance, determinant / long_variance));
  vec2 pixel = centre + reaches.x * along + reaches.y * vec2(-along.y, along.x);
  gl_Position = vec4(2.0 * pixel / size - 1.0, 0.0, 1.0);
}
