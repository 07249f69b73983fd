// For conformance_trace.py: `collect FOLDER` makes corpus and traces there, full ones with hidden
// states; `digest FILE` prints a hash over everything that read_trace_part gives.
#include <cstdio>
#include <cstring>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "collector/collect_with.hpp"
#include "fake_engine.hpp"
#include "schemas/trace/trace.hpp"
#include "tests/corpus/corpus_folder.hpp"

namespace {

using namespace dgap;

void collect(const std::filesystem::path& folder) {
  testing::write_corpus(folder / "corpus");
  schemas::Config config = testing::small_config(folder);
  config.trace.logits = "full";
  config.trace.hidden = true;
  base::Progress silent;
  collector::collect_with(config,
                          {[] { return std::make_unique<testing::FakeTokenizer>(61, 60); },
                           [] { return std::make_unique<testing::FakeDecoder>(64, 5); }},
                          silent);
  std::puts((config.run_directory() / "traces").c_str());
}

class Digest {
 public:
  template <class T>
  void add(const std::vector<T>& values) {
    hash_.update(std::as_bytes(std::span(values)));
  }
  void add(const std::string& text) { hash_.update(std::to_string(text.size()) + ":" + text); }
  void add(double value) { add(std::vector{value}); }
  std::string hex() { return hash_.hex(); }

 private:
  base::Sha256 hash_;
};

std::string digest(const std::filesystem::path& file) {
  const schemas::TracePart part = schemas::read_trace_part(file, {{}, true, true, true});
  Digest digest;
  const schemas::TraceHeader& h = part.header;
  for (const std::string& text :
       {h.producer, h.producer_commit, h.run_id, h.model_sha256, h.tokenizer_sha256, h.compute,
        h.cpu_isa, h.decode_mode, part.config_yaml}) {
    digest.add(text);
  }
  digest.add(std::vector{h.vocab_size, h.hidden_size});
  for (const schemas::TraceUnit& u : part.units) {
    for (const std::string& text : {u.book, u.source, u.domain, u.split, u.text_sha256})
      digest.add(text);
    digest.add(std::vector<std::int64_t>{u.context, u.start, u.steps, u.first_step, u.first_token});
  }
  digest.add(part.tokens), digest.add(part.step_unit), digest.add(part.step_position),
      digest.add(part.step_target);
  const schemas::ReferenceColumns& r = part.reference;
  digest.add(r.lse), digest.add(r.entropy), digest.add(r.target_logit), digest.add(r.top_ids);
  digest.add(r.top_logits), digest.add(r.candidate_first), digest.add(r.candidate_ids);
  digest.add(r.candidate_logits), digest.add(r.logits);
  for (std::size_t p = 0; p < part.columns.size(); ++p) {
    const schemas::PrecisionInfo& info = part.precisions[p];
    digest.add(info.name), digest.add(info.scheme_json), digest.add(info.bits_per_element_key);
    digest.add(info.total_bits_per_element_value);
    const schemas::PrecisionColumns& c = part.columns[p];
    digest.add(c.lse), digest.add(c.entropy), digest.add(c.target_logit), digest.add(c.kl),
        digest.add(c.top_ids);
    digest.add(c.top_logits), digest.add(c.top_reference_logits),
        digest.add(c.top_reference_mass_before);
    digest.add(c.candidate_ranks), digest.add(c.candidate_logits), digest.add(c.hidden),
        digest.add(c.logits);
  }
  return digest.hex();
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count == 3 && std::strcmp(arguments[1], "collect") == 0) return collect(arguments[2]), 0;
    if (count == 3 && std::strcmp(arguments[1], "digest") == 0)
      return std::puts(digest(arguments[2]).c_str()), 0;
    return 2;
  } catch (const base::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return static_cast<int>(error.code());
  }
}
