#include "engine/tokenizer/normalizer.hpp"

#include "engine/tokenizer/nfc.hpp"

namespace dgap::engine {
namespace {

std::string_view replace_all(std::string_view text, const std::string& from, const std::string& to,
                             std::string& out) {
  std::size_t found = text.find(from);
  if (found == std::string_view::npos) return text;
  out.clear();
  std::size_t at = 0;
  for (; found != std::string_view::npos; found = text.find(from, at)) {
    out.append(text, at, found - at).append(to);
    at = found + from.size();
  }
  return out.append(text, at);
}

std::string_view apply(const NormalizerStep& step, std::string_view text, std::string& out) {
  switch (step.kind) {
    case NormalizerStep::Kind::nfc:
      return to_nfc(text, out);
    case NormalizerStep::Kind::prepend:
      if (text.empty()) return text;
      return out.assign(step.to).append(text);
    case NormalizerStep::Kind::replace:
      return replace_all(text, step.from, step.to, out);
  }
  return text;
}

}  // namespace

std::string_view normalize(std::string_view text, const std::vector<NormalizerStep>& steps,
                           NormalizerBuffers& buffers) {
  for (const NormalizerStep& step : steps) {
    text = apply(step, text, buffers.a);
    // What a step wrote is the next one's input; the other buffer is free.
    if (text.data() == buffers.a.data()) {
      std::swap(buffers.a, buffers.b);
      text = buffers.b;
    }
  }
  return text;
}

}  // namespace dgap::engine
