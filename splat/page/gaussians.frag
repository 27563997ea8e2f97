// What one Gaussian adds to a pixel; the kernels skip and clamp alpha at the same values.

flat in vec2 centre;
flat in vec3 conic;
flat in vec4 colour;
flat in float chance;  // another for each Gaussian, from 0 to 1
out vec4 blended;

void main() {
  vec2 d = gl_FragCoord.xy - centre;
  float exponent = 0.5 * (conic.x * d.x * d.x + conic.z * d.y * d.y) + conic.y * d.x * d.y;
  float alpha = min($max_alpha, colour.a * exp(-exponent));
  if (exponent < 0.0 || !(alpha >= 1.0 / 255.0)) discard;
  // What a faint layer changes is less than the picture's STEP, in which each layer is rounded: by chance, then, or
  // hundreds of them would change nothing. Noise: Jimenez 2014, "Next Generation Post Processing in Call of Duty".
  float noise = fract(chance + 52.9829189 * fract(dot(gl_FragCoord.xy, vec2(0.06711056, 0.00583715))));
  blended = vec4(alpha * colour.rgb + STEP * (noise - 0.5), alpha);
}
