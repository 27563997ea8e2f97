// The vector-Jacobian product of projection.h: gradients of a loss by the parameters of a Gaussian and by the pose of
// the camera, from the gradients by its image. They are those of gsplat 1.5.3, including the guard of the compensation;
// radii and the decision to cull have none. v_x is the gradient by x.
//
// M = F C F^T is the covariance on the image and P = (M + e I)^-1 the conic (e: eps2d, B: det(M + e I)). The textbook
// way from V, the gradient by P, is -P V P, then products with F. For a needle most digits cancel in P F, whose rows
// are far longer than the result. With adj(M) F = T, whose rows are cross products (a x (b x c) expanded backwards),
//     P F = Q = (e F + T) / B,
// which keeps all its digits, and so do the gradients in
//     Y = -V Q + w T            w = v_ratio e / B, because d(det M / B) / dM = (e / B) adj(M) P
//     v_C = Q^T Y,  v_F = 2 P Y C.
#pragma once

#include "projection.h"

namespace splat {

// Gradients of the loss by the results of project_gaussian.
struct ProjectionGradient {
  float x, y, depth;
  float a, b, c;
  float compensation;
};

struct ConicAndCompensation {
  float a, b, c, compensation;  // results of project_gaussian
};

// Gradients by the centre of one Gaussian and by each entry of the matrix C of its Shape, summed over the images in
// which it is visible.
struct GaussianGradient {
  Vec3 mean;
  Sym3 covariance;
  bool seen;
};

// Gradients by the first three rows of one viewmat.
struct PoseGradient {
  Mat3 rotation;
  Vec3 translation;
};

// Adds to `sums`, and sets `pose`. Precondition: project_gaussian returned true and `forward` for this Gaussian, so the
// shape is valid and B is not 0.
SPLAT_HD void project_gaussian_backward(const CameraParameters& camera, const ProjectionSettings& settings,
                                        const float* mean, const Shape& shape, const ConicAndCompensation& forward,
                                        const ProjectionGradient& v, GaussianGradient& sums, PoseGradient& pose) {
  const Vec3 centre = to_camera(camera, mean);
  const Linearization at = linearize(camera, settings, centre);
  const Footprint f = footprint(camera, at, shape, settings.eps2d);

  const float inverse = 1.0f / f.blurred;
  const Vec3 t_x = cross(f.spread_y, f.normal), t_y = cross(f.normal, f.spread_x);
  const Vec3 q_x = scaled(inverse, combined(settings.eps2d, f.frame_x, 1.0f, t_x));
  const Vec3 q_y = scaled(inverse, combined(settings.eps2d, f.frame_y, 1.0f, t_y));
  // The compensation is the root of the ratio det M / B. At a ratio of 0 its slope is infinite; gsplat adds 1e-6.
  float w = 0.0f;
  if (settings.antialiased) w = 0.5f * v.compensation / (forward.compensation + 1e-6f) * settings.eps2d * inverse;
  const float half_b = 0.5f * v.b;  // b is two entries of the conic
  const Vec3 y_x = add(combined(-v.a, q_x, -half_b, q_y), scaled(w, t_x));
  const Vec3 y_y = add(combined(-half_b, q_x, -v.c, q_y), scaled(w, t_y));

  sums.seen = true;
  sums.covariance.xx += q_x.x * y_x.x + q_y.x * y_y.x;
  sums.covariance.xy += q_x.x * y_x.y + q_y.x * y_y.y;
  sums.covariance.xz += q_x.x * y_x.z + q_y.x * y_y.z;
  sums.covariance.yy += q_x.y * y_x.y + q_y.y * y_y.y;
  sums.covariance.yz += q_x.y * y_x.z + q_y.y * y_y.z;
  sums.covariance.zz += q_x.z * y_x.z + q_y.z * y_y.z;

  const Vec3 yc_x = multiply(shape.covariance, y_x), yc_y = multiply(shape.covariance, y_y);
  const Vec3 v_frame_x = combined(2.0f * forward.a, yc_x, 2.0f * forward.b, yc_y);
  const Vec3 v_frame_y = combined(2.0f * forward.b, yc_x, 2.0f * forward.c, yc_y);
  // F = (J W) A
  const Vec3 v_jw_x = multiply(shape.axes, v_frame_x), v_jw_y = multiply(shape.axes, v_frame_y);
  const Vec3 v_row_x = multiply(camera.rotation, v_jw_x), v_row_y = multiply(camera.rotation, v_jw_y);
  Vec3 v_centre = linearize_backward(camera, settings, centre, at, v.x, v.y, v_row_x, v_row_y);
  v_centre.z += v.depth;

  sums.mean = add(sums.mean, multiply(v_centre, camera.rotation));
  // The rotation moves the centre and changes J W.
  const Vec3 world = {mean[0], mean[1], mean[2]};
  pose.rotation = {{add(scaled(v_centre.x, world), combined(at.row_x.x, v_jw_x, at.row_y.x, v_jw_y)),
                    add(scaled(v_centre.y, world), combined(at.row_x.y, v_jw_x, at.row_y.y, v_jw_y)),
                    add(scaled(v_centre.z, world), combined(at.row_x.z, v_jw_x, at.row_y.z, v_jw_y))}};
  pose.translation = v_centre;
}

// From the gradient by C = diag(scale^2) in the quaternion's axes. Turning the axes by the small angle o about
// themselves changes C by [o] C - C [o], and the unit quaternion q by q (0, o) / 2 (Sola 2017, "Quaternion kinematics
// for the error-state Kalman filter", section 4); C = diag gives v_o = 2 v_C,yz (s_y^2 - s_z^2), ..., the tangent of q.
// Precondition: project_gaussian returned true.
SPLAT_HD void quat_scale_backward(const float* quat, const float* scale, const Sym3& v, float* v_quat,
                                  float* v_scale) {
  v_scale[0] = 2.0f * scale[0] * v.xx;
  v_scale[1] = 2.0f * scale[1] * v.yy;
  v_scale[2] = 2.0f * scale[2] * v.zz;
  Quaternion unit = {1.0f, {0.0f, 0.0f, 0.0f}};
  float inverse_length = 0.0f;
  unit_quaternion(quat, unit, inverse_length);
  // (s - t) (s + t), because squares would cancel.
  const Vec3 o = {v.yz * (scale[1] - scale[2]) * (scale[1] + scale[2]),
                  v.xz * (scale[2] - scale[0]) * (scale[2] + scale[0]),
                  v.xy * (scale[0] - scale[1]) * (scale[0] + scale[1])};
  const float factor = 4.0f * inverse_length;
  const Vec3 turned = add(scaled(unit.w, o), cross(unit.v, o));
  v_quat[0] = -factor * dot(unit.v, o);
  v_quat[1] = factor * turned.x;
  v_quat[2] = factor * turned.y;
  v_quat[3] = factor * turned.z;
}

// The outputs for the gradients by the parameters of N Gaussians; null if there is no such parameter.
struct GaussianGradients {
  float *means, *quats, *scales, *covars;  // [N, 3], [N, 4], [N, 3], [N, 6]
};

SPLAT_HD void set_zero(float* values, int count) {
  for (int k = 0; k < count; ++k) values[k] = 0.0f;
}

// Writes the gradients of Gaussian i, `g`: zeros if it is not visible in any image, whatever its parameters are.
SPLAT_HD void store_gradient(const GaussianParameters& g, const GaussianGradient& v, int64_t i,
                             const GaussianGradients& out) {
  out.means[3 * i] = v.mean.x;
  out.means[3 * i + 1] = v.mean.y;
  out.means[3 * i + 2] = v.mean.z;
  if (g.covars != nullptr) {
    // An entry off the diagonal stands for two.
    float* covar = out.covars + 6 * i;
    covar[0] = v.covariance.xx;
    covar[1] = 2.0f * v.covariance.xy;
    covar[2] = 2.0f * v.covariance.xz;
    covar[3] = v.covariance.yy;
    covar[4] = 2.0f * v.covariance.yz;
    covar[5] = v.covariance.zz;
  } else if (v.seen) {
    quat_scale_backward(g.quats, g.scales, v.covariance, out.quats + 4 * i, out.scales + 3 * i);
  } else {
    set_zero(out.quats + 4 * i, 4);
    set_zero(out.scales + 3 * i, 3);
  }
}

}  // namespace splat
