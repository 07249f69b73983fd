#pragma once
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

#include "schemas/config/config.hpp"

/// The one description of the configuration file. describe_config() walks every key in the file's
/// order and hands it to a visitor: the reader, the writer, and the tests that keep
/// config.schema.json and config-format.md equal to it. Defaults are those of the structs in
/// config.hpp.
///
/// A visitor has
///   field(key, value, rule, meaning)     one value, a list, or a mapping from names to numbers
///   section(key, meaning, body)          a mapping whose keys `body` describes
///   precisions(key, schemes, meaning)    the list of cache schemes
///   sites(key, sites, meaning)           one integer, or one per split
///   later(key, meaning)                  known, but not built in this version
namespace dgap::schemas {

/// Closed range of an integer.
struct IntegerRange {
  std::int64_t low = 0, high = 0;
};
/// Any value of the type.
struct Any {};
/// Range of a real number; closed unless said otherwise.
struct RealRange {
  double low = 0, high = 0;
  bool low_open = false, high_open = false;
};
/// One of `values`; `later` are known, but not built in this version.
struct Choice {
  std::vector<std::string_view> values, later = {};
};
/// A list of `low_count` .. `high_count` integers in a range; `ascending`: strictly.
struct IntegerList {
  std::size_t low_count = 1, high_count = 1;
  IntegerRange each;
  bool ascending = false;
};
/// At most `high_count` real numbers in a range, ascending.
struct RealList {
  std::size_t high_count = 1;
  RealRange each;
};
/// Keys of the configuration and for each the values to try.
struct SearchGrid {
  std::vector<std::string_view> keys;  // that may be searched
  std::size_t high_count = 1;          // values of each
};
/// Text that is not empty.
struct Text {};
/// [A-Za-z0-9._-]+, neither "." nor "..".
struct Name {};

inline constexpr std::int64_t kMaxTokens = 100'000'000;
inline constexpr IntegerRange kSitesPerBook{1, 1'000'000};
inline const Choice kRetrievalChoice{{kRetrievalKinds.begin(), kRetrievalKinds.end()}};

template <class V, class C>
void describe_run(V& v, C& run) {
  v.field("name", run.name, Name{}, "name of the run; the run directory is `<dir>/<name>/`");
  v.field("dir", run.dir, Text{}, "folder that holds run directories; changes no result");
  v.field("seed", run.seed, Any{}, "seed of everything random");
  v.field("threads", run.threads, IntegerRange{0, 4096},
          "worker threads; 0 = all that the process may use; changes no result");
}

template <class V, class C>
void describe_model(V& v, C& model) {
  v.field("path", model.path, Text{}, "model file (GGUF) or folder (Hugging Face); required");
  v.field("format", model.format, Choice{{"auto", "gguf", "huggingface"}}, "format of the model");
  v.field("compute", model.compute, Choice{{"auto", "f32", "bf16"}},
          "number format of matrix products; auto = bf16 where the CPU multiplies it natively, "
          "else f32");
  v.field("device", model.device, Choice{{"cpu", "cuda"}}, "device that decodes");
  v.field(
      "memory_budget", model.memory_budget,
      IntegerRange{0, std::numeric_limits<std::int64_t>::max()},
      "bytes that a collection may take: as many precisions are decoded side by side as fit; 0 = "
      "no limit; changes no result");
}

template <class V, class C>
void describe_corpus(V& v, C& corpus) {
  v.field("path", corpus.path, Text{}, "folder or file of the corpus; required");
  v.field("layout", corpus.layout, Choice{{"pg19", "texts", "jsonl", "chat"}},
          "pg19: `<path>/<split>/<book>.txt`; texts: `<path>/*.txt`, dealt to the splits; jsonl: "
          "JSON lines with a text, a file (dealt) or `<path>/<split>.jsonl`; chat: the same with "
          "`messages` of `role` and `content`");
  v.section("splits", "which split of the corpus plays which part; three distinct names", [&] {
    v.field("train", corpus.splits.train, Name{},
            "split that detector and corrector are trained on");
    v.field("validation", corpus.splits.validation, Name{},
            "split that windows, early stopping and τ are chosen on");
    v.field("test", corpus.splits.test, Name{}, "split that reports are made from");
  });
  v.section("shares", "how a corpus without splits is dealt, in proportion", [&] {
    v.field("train", corpus.shares.train, RealRange{0, 1e6}, "share of the train split");
    v.field("validation", corpus.shares.validation, RealRange{0, 1e6},
            "share of the validation split");
    v.field("test", corpus.shares.test, RealRange{0, 1e6}, "share of the test split");
  });
  v.field("text_key", corpus.text_key, Text{}, "key of the text in a jsonl corpus");
  v.field("chat_template", corpus.chat_template, Choice{{"chatml", "llama2", "llama3", "mistral"}},
          "how a chat corpus is written for the model; chatml: SmolLM2 and Qwen2");
  v.field("special_tokens", corpus.special_tokens, Any{},
          "the texts of special tokens become those tokens, for texts that are templated already; "
          "always so in a chat corpus");
  v.field("context_lengths", corpus.context_lengths, IntegerList{1, 64, {1, kMaxTokens}, true},
          "prefix lengths in tokens, ascending; every site is decoded at each");
  v.field("decode_steps", corpus.decode_steps, IntegerRange{1, kMaxTokens},
          "teacher-forced steps per site");
  v.sites("sites_per_book", corpus.sites_per_book,
          "sites that each book gives: one integer, or one per split");
  v.field("front_matter", corpus.front_matter, IntegerRange{0, kMaxTokens},
          "tokens skipped at a book's beginning where the book is long enough");
  v.section("retrieval", "synthetic prompts beside the texts, hidden in those of the same split",
            [&] {
              auto& r = corpus.retrieval;
              v.field("train", r.train, IntegerRange{0, 10'000'000}, "prompts for training");
              v.field("validation", r.validation, IntegerRange{0, 10'000'000},
                      "prompts for windows, early stopping and τ");
              v.field("context", r.context, IntegerRange{64, kMaxTokens},
                      "tokens of a prompt and its answer at most");
              v.field("kinds", r.kinds, kRetrievalChoice, "kinds that take turns");
            });
}

template <class V, class C>
void describe_allocation(V& v, C& a) {
  v.field("base", a.base, Name{}, "precision whose bits are spread anew; none: no allocation");
  v.field("name", a.name, Name{}, "name of the precision that results");
  v.field("budget", a.budget, RealRange{0, 16},
          "bits per element, codes and scales, mean of keys and values; or 0 and a floor");
  v.field("floor", a.floor, RealRange{0, 1},
          "token accuracy on the validation prompts that the fewest bits must reach; 0: a budget");
  v.field("choices", a.choices, IntegerList{1, 7, {2, 16}, true},
          "bits that a head's tensor may have instead of the base's");
  v.field("tensors", a.tensors, Choice{{"key", "value"}}, "tensors whose bits are chosen");
  v.field("estimator", a.estimator, Choice{{"auto", "spared", "paths", "greedy"}},
          "spared: gain of each alone; paths: mean gain along random orders; greedy: one after "
          "another; auto: the best on the validation prompts");
  v.field("prompts", a.prompts, IntegerRange{1, 100'000}, "prompts that bits are chosen on");
  v.field("validation_prompts", a.validation_prompts, IntegerRange{1, 100'000},
          "prompts that allocations are compared on");
  v.field("sites", a.sites, IntegerRange{1, 100'000}, "places of book text, for either");
  v.field("steps", a.steps, IntegerRange{1, 4096}, "steps per site whose KL is taken");
  v.field("context", a.context, IntegerRange{64, kMaxTokens},
          "tokens of a prompt, and of a site's prefix, at most");
  v.field("book_weight", a.book_weight, RealRange{0, 1000},
          "weight of the books' KL beside the answers' negative log-likelihood per token");
  v.field("paths", a.paths, IntegerRange{1, 1000}, "random orders per prompt and per site");
  v.field("random", a.random, IntegerRange{0, 1000},
          "random allocations of the same budget, as control");
}

template <class V, class C>
void describe_trace(V& v, C& trace) {
  v.field("logits", trace.logits, Choice{{"compact", "full"}},
          "compact: candidates, top M and exact sums; full: whole rows of logits as well");
  v.field("top", trace.top, IntegerRange{0, 1'000'000},
          "M, the leading tokens stored per step, at least window.cap + 1; 0 = window.cap + 1");
  v.field("alpha_max", trace.alpha_max, RealRange{0, 1, true},
          "reference mass of the stored candidates C(alpha_max)");
  v.field("hidden", trace.hidden, Any{}, "store the final hidden states (f16)");
  v.field("units_per_part", trace.units_per_part, IntegerRange{1, 100'000},
          "(book, site) units per trace file");
}

template <class V, class C>
void describe_window(V& v, C& window) {
  v.field("alpha", window.alpha, RealRange{0, 1, true},
          "reference mass that defines the candidates C(alpha), Eq. 3; at most trace.alpha_max");
  v.field("rho_k", window.rho_k, RealRange{0, 1, true}, "mean coverage that K_b must reach, Eq. 4");
  v.field("cap", window.cap, IntegerRange{2, 100'000}, "largest window");
  v.field("confidence", window.confidence, RealRange{0, 1, false, true},
          "K_b is the smallest window whose one-sided lower bound of mean coverage at this level "
          "reaches rho_k; 0 = the mean itself");
  v.field("adaptive", window.adaptive, RealRange{0, 1, false, true},
          "every step has a window of its own, the smallest K <= K_b whose predicted coverage "
          "suffices, so that this share of K_b's mean coverage is kept; 0 = K_b at every step");
}

/// What a grid search may vary: what leaves samples and validation loss as they are.
inline const std::vector<std::string_view> kSearchKeys = {"corrector.architecture",
                                                          "corrector.form",
                                                          "corrector.hidden",
                                                          "corrector.transformer.width",
                                                          "corrector.transformer.heads",
                                                          "corrector.transformer.blocks",
                                                          "corrector.transformer.hidden",
                                                          "corrector.rank",
                                                          "corrector.lambda_rank",
                                                          "corrector.lambda_reg",
                                                          "training.batch",
                                                          "training.learning_rate",
                                                          "training.weight_decay",
                                                          "training.patience"};

template <class V, class C>
void describe_networks(V& v, C& config) {
  v.section("detector", "which steps are risky, Eq. 6 and 10", [&] {
    v.field("architecture", config.detector.architecture, Choice{{"linear", "mlp"}}, "network");
    v.field("hidden", config.detector.hidden, IntegerList{1, 8, {1, 4096}, false},
            "widths of the hidden layers of an mlp");
    v.field("escalate", config.detector.escalate, Any{},
            "a second output that finds distorted steps which the window does not cover: the "
            "runtime leaves them as they are and says `escalate`");
  });
  v.section("corrector", "changes of the window's logits, Eq. 12-18", [&] {
    auto& c = config.corrector;
    v.field("architecture", c.architecture, Choice{{"linear", "mlp", "transformer"}},
            "network of the change; transformer: candidates see each other");
    v.field("form", c.form, Choice{{"candidate", "window"}},
            "of linear and mlp; candidate: the same network for every candidate, window: one that "
            "takes the whole window and gives the changes of all candidates");
    v.field("hidden", c.hidden, IntegerList{1, 8, {1, 4096}, false},
            "widths of the hidden layers of an mlp, and of the mass network beside a transformer");
    v.section("transformer", "size of a transformer", [&] {
      v.field("width", c.transformer.width, IntegerRange{1, 1024}, "numbers per candidate");
      v.field("heads", c.transformer.heads, IntegerRange{1, 64},
              "heads of attention; divide width");
      v.field("blocks", c.transformer.blocks, IntegerRange{1, 3},
              "attention and mlp, one after the other");
      v.field("hidden", c.transformer.hidden, IntegerRange{1, 4096},
              "width of the mlp's hidden layer");
    });
    v.field("inputs", c.inputs, Choice{{"logits", "context", "tokens", "hidden"}},
            "what the corrector sees; logits always, context: the token ids of the text so far, "
            "tokens: which token a candidate is, hidden: the final hidden state, against every "
            "token's learned vector");
    v.field("rank", c.rank, IntegerRange{1, 256},
            "numbers of a vocabulary entry's learned vector, with tokens or hidden");
    v.field("objective", c.objective, Choice{{"paper", "extended"}},
            "paper: risky steps, window alone; extended: all steps, and one bucket for everything "
            "outside the window");
    v.field("temperature", c.temperature, RealRange{0, 100, true},
            "T of the loss; 1 unless objective is paper");
    v.field("lambda_rank", c.lambda_rank, RealRange{0, 1000}, "weight of the pairwise order loss");
    v.field("lambda_reg", c.lambda_reg, RealRange{0, 1000}, "weight of the squared changes");
  });
  v.section("training", "of both networks, by AdamW", [&] {
    auto& t = config.training;
    v.field("epochs", t.epochs, IntegerRange{1, 100'000}, "passes over the training steps at most");
    v.field("batch", t.batch, IntegerRange{1, 1'000'000}, "steps per update");
    v.field("learning_rate", t.learning_rate, RealRange{0, 1, true}, "peak learning rate");
    v.field("weight_decay", t.weight_decay, RealRange{0, 1}, "decoupled weight decay");
    v.field("patience", t.patience, IntegerRange{1, 100'000},
            "epochs without a better validation loss before stopping");
    v.field("positive_weight", t.positive_weight, RealRange{0, 1000, true},
            "class weight of risky steps in the detector's loss");
    v.field("weights", t.weights, RealRange{0, 1e6},
            "how much a step of a corpus source or domain counts in the corrector's loss; 1 where "
            "none is given");
    v.field("seeds", t.seeds, IntegerRange{1, 100},
            "correctors trained from as many seeds; the best one on validation steps is kept");
    v.field("learning_curve", t.learning_curve, RealList{16, {0, 1, true, true}},
            "shares of the training steps that correctors are trained on besides, for a curve");
    v.field("search", t.search, SearchGrid{kSearchKeys, 16},
            "values to try, as mappings like the configuration's own: correctors are trained with "
            "every combination, the best one on validation steps is kept");
  });
}

template <class V, class C>
void describe_config(V& v, C& config) {
  static_assert(std::is_same_v<std::remove_const_t<C>, Config>);
  v.field("version", config.version, IntegerRange{1, 1}, "version of this format");
  v.section("run", "name, place and seed of the run", [&] { describe_run(v, config.run); });
  v.section("model", "the language model", [&] { describe_model(v, config.model); });
  v.section("corpus", "the text, and how much of it is decoded",
            [&] { describe_corpus(v, config.corpus); });
  v.precisions("precisions", config.precisions,
               "cache schemes that are decoded; required, distinct names");
  v.section("calibration",
            "training text that cache schemes are calibrated on, where they need it (kvquant)",
            [&] {
              v.field("windows", config.calibration.windows, IntegerRange{1, 100'000},
                      "windows of text, from books in turn, at random places");
              v.field("tokens", config.calibration.tokens, IntegerRange{0, kMaxTokens},
                      "tokens of a window; 0 = 2048, or 512 where the model's hidden size is below "
                      "1024");
            });
  v.section("allocation",
            "bits per layer, KV head and tensor, chosen for a budget (docs/allocation.md)",
            [&] { describe_allocation(v, config.allocation); });
  v.section("decode", "how targets are decoded", [&] {
    v.field("mode", config.decode.mode, Choice{{"blocked", "stepwise"}},
            "many teacher-forced rows at once, or one at a time");
    v.field("block", config.decode.block, IntegerRange{1, 4096}, "rows per block");
  });
  v.section("trace", "what is stored of each step", [&] { describe_trace(v, config.trace); });
  v.section("window", "the recovery window K_b", [&] { describe_window(v, config.window); });
  v.section("labels", "which steps are risky, Eq. 9: d_loc > epsilon and coverage >= rho_c", [&] {
    v.field("epsilon", config.labels.epsilon, RealRange{0, 2},
            "local distance above which a step is distorted");
    v.field("rho_c", config.labels.rho_c, RealRange{0, 1},
            "coverage from which a window can repair it");
  });
  describe_networks(v, config);
  v.section("threshold", "choice of τ on the validation split", [&] {
    auto& t = config.threshold;
    v.field("policy", t.policy, Choice{{"fixed", "budget", "target", "tradeoff"}},
            "fixed: `value`; budget: most KL removed at a correction rate of at most `budget`; "
            "target: least correction rate whose drift is at most `target`; tradeoff: maximises "
            "mean KL removed minus `cost` x correction rate");
    v.field("value", t.value, RealRange{0, 1}, "τ of policy fixed");
    v.field("cost", t.cost, RealRange{0, 1000},
            "nats that a corrected step must earn under policy tradeoff");
    v.field("budget", t.budget, RealRange{0, 1}, "largest correction rate under policy budget");
    v.field("target", t.target, RealRange{0, 2}, "mean drift to reach under policy target");
    v.field("worse_share", t.worse_share, RealRange{0, 1, true},
            "bound on the share of a book's steps that a correction makes worse, guaranteed with "
            "probability `worse_confidence` over the choice of at least 20 validation books; 1 = "
            "none");
    v.field("worse_confidence", t.worse_confidence, RealRange{0, 1, true, true},
            "probability with which `worse_share` holds");
    v.field("escalate_precision", t.escalate_precision, RealRange{0, 1},
            "least share of distorted and uncovered steps among those that are escalated, on "
            "validation steps; the threshold of the second output is the lowest that keeps it");
    v.section("online", "a threshold per sequence that follows a correction rate at run time", [&] {
      v.field("rate", t.online.rate, RealRange{0, 1}, "share of corrected steps to hold; 0 = off");
      v.field("step", t.online.step, RealRange{0, 1, true},
              "how far τ moves: by step x ([corrected] - rate) after every step");
      v.field("low", t.online.low, RealRange{0, 1}, "least τ");
      v.field("high", t.online.high, RealRange{0, 1}, "largest τ, at least `low`");
    });
  });
  v.section("evaluate", "what is measured besides the test split", [&] {
    v.section("retrieval", "answers hidden in prompts of held-out text", [&] {
      auto& r = config.evaluate.retrieval;
      v.field("cases", r.cases, IntegerRange{0, 100'000}, "prompts of each task; 0 = none");
      v.field("context", r.context, IntegerRange{64, kMaxTokens},
              "tokens of a prompt and its answer at most");
      v.field("tasks", r.tasks, kRetrievalChoice, "kinds of prompts");
    });
  });
  v.later("adapters", "low-rank adapters");
  v.later("sweep", "many runs");
}

}  // namespace dgap::schemas
