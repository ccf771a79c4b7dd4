// f16 and bf16 to f32 and back, rounding to nearest even, without branches so that loops over them are vectorised.
// Included by kernel files inside their per-instruction-set namespace's translation unit; pure.
#pragma once

#include <bit>
#include <cstdint>

namespace ebb::array {

inline float f16_to_f32(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7FFF) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;  // also right for subnormals
  const std::uint32_t finite = std::bit_cast<std::uint32_t>(scaled);
  const std::uint32_t special = magnitude | 0x7F800000u;  // infinity and NaN
  return std::bit_cast<float>(sign | ((half & 0x7C00) == 0x7C00 ? special : finite));
}

inline std::uint16_t f32_to_f16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000;
  const std::uint32_t magnitude = bits & 0x7FFFFFFF;
  // Normal: rebias the exponent and round the 13 bits that go. Subnormal: adding 0.5 lets the adder round.
  const std::uint32_t odd = (magnitude >> 13) & 1;
  const std::uint32_t normal = (magnitude - 0x38000000u + 0xFFFu + odd) >> 13;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude < 0x38800000u ? magnitude : 0u) + 0.5f) - 0x3F000000u;
  std::uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x477FF000u ? 0x7C00u : result;  // from 65520 on: infinity
  result = magnitude > 0x7F800000u ? 0x7E00u : result;
  return static_cast<std::uint16_t>(sign | result);
}

inline float bf16_to_f32(std::uint16_t half) { return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16); }

inline std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7FFFu + ((bits >> 16) & 1)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40u;
  return static_cast<std::uint16_t>((bits & 0x7FFFFFFF) > 0x7F800000u ? quiet : rounded);
}

}  // namespace ebb::array
