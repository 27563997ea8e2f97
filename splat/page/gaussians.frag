// What one Gaussian adds to a pixel; the kernels skip and clamp alpha at the same values.

flat in vec2 centre;
flat in vec3 conic;
flat in vec4 colour;
out vec4 blended;

void main() {
  vec2 d = gl_FragCoord.xy - centre;
  float exponent = 0.5 * (conic.x * d.x * d.x + conic.z * d.y * d.y) + conic.y * d.x * d.y;
  float alpha = min($max_alpha, colour.a * exp(-exponent));
  if (exponent < 0.0 || !(alpha >= 1.0 / 255.0)) discard;
  blended = vec4(alpha * colour.rgb, alpha);
}
