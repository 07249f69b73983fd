#include "calibrator/model_card.hpp"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dgap::calibrator {
namespace {

using nlohmann::json;

/// A double-quoted YAML scalar: JSON strings are such. Names come from model files.
std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', true, json::error_handler_t::replace);
}

/// Text for a Markdown line: nothing in it can end the line or open markup.
std::string plain(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool safe = static_cast<unsigned char>(c) >= ' ' && c != '|' && c != '<' && c != '`' &&
                      c != '[' && c != '*' && c != 0x7f;
    result += safe ? c : '_';
  }
  return result.empty() ? "unnamed" : result;
}

/// `value` with `digits` after the point.
std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string counted(std::int64_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

std::string before_after(double before, double after, int digits) {
  return fixed(before, digits) + " → " + fixed(after, digits);
}

std::string front_matter(const schemas::BaseModel& model) {
  return "---\nbase_model: " + quoted(model.name) +
         "\nlibrary_name: dgap\nlicense: " + quoted(model.license) +
         "\ntags:\n- dgap\n- kv-cache\n- quantization\n---\n";
}

std::string row(const CardEntry& entry) {
  const Headline h = headline(*entry.threshold);
  const bool off = entry.threshold->mode == "off";
  return "| " + entry.name + " | " + fixed(entry.bits_key, 2) + " / " + fixed(entry.bits_value, 2) +
         " | " + std::to_string(entry.window->window) + " | " +
         fixed(entry.window->coverage_mean, 3) + " | " +
         (off ? std::string("off") : base::number(static_cast<float>(entry.threshold->tau))) +
         " | " + fixed(h.correction_rate, 3) + " | " + before_after(h.kl_before, h.kl_after, 4) +
         " | " + before_after(h.drift_before, h.drift_after, 4) + " | " +
         before_after(h.top1_before, h.top1_after, 3) + " | " +
         before_after(h.perplexity_before, h.perplexity_after, 2) + " | " +
         fixed(h.kl_worse_share, 3) + " |\n";
}

std::string figures(const std::vector<CardEntry>& entries, const ValidationBasis& basis) {
  std::string contexts;
  for (const std::int32_t context : basis.contexts) {
    contexts += (contexts.empty() ? "" : ", ") + std::to_string(context);
  }
  std::string text =
      "## Validation figures\n\nMeans over " + counted(basis.steps, "teacher-forced step") + " (" +
      counted(basis.units, "site") + " in " + counted(basis.books, "book") + ", prefixes of " +
      contexts +
      " tokens). `a → b`: as decoded over the quantised cache → as this bundle serves it. KL is "
      "KL(reference || ·) in nats over the full vocabulary; drift is the mean local distance "
      "d_loc.\n\n"
      "| precision | bits K / V | window | coverage | tau | corrected | KL | drift | top-1 "
      "agreement | "
      "perplexity | steps made worse |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const CardEntry& entry : entries) text += row(entry);
  return text + "\n";
}

/// What is promised about the share of steps made worse, where something is.
std::string guarantees(const std::vector<CardEntry>& entries) {
  std::string text;
  for (const CardEntry& entry : entries) {
    const schemas::WorseBound& worse = entry.threshold->worse;
    if (!worse.limit || entry.threshold->mode == "off") continue;
    text += "- " + entry.name + ": at most " + fixed(*worse.limit, 3) +
            " of the steps of a book like the " + counted(worse.books, "validation book") +
            " are made worse, on average over such books, with probability " +
            base::number(worse.confidence) + " over the choice of those books.\n";
  }
  return text.empty() ? text : "## Guarantee\n\n" + text + "\n";
}

constexpr const char* kLimits =
    "## Limits\n\n"
    "- The figures come from the steps that also chose the window, the epoch and tau: they are "
    "optimistic. Figures on held-out books are those of `dgap evaluate`.\n"
    "- Bits count codes and scales; the residual window, sink tokens and centring statistics come "
    "on top.\n"
    "- Only logits inside the window change. What the quantised decode ranks below the window "
    "cannot be brought back.\n"
    "- The corrector sees the quantised decode's logits and, where the manifest says so, the "
    "token ids of the text. It moves the distribution towards the reference's; it does not restore "
    "it. From logits alone it does not bring back retrieval that the cache has lost; with the text "
    "it copies what followed the same words before, which finds repeated wording, not paraphrase.\n"
    "- Where tau is `off`, validation steps gained nothing from the corrector, and the runtime "
    "leaves every row "
    "as it is.\n"
    "- A bundle belongs to one model file, one tokenizer and the cache scheme in its manifest. On "
    "another scheme, another model or text far from the validation books nothing is promised.\n";

}  // namespace

Headline headline(const schemas::ThresholdResult& threshold) {
  const schemas::ThresholdCurve& curve = threshold.curve;
  if (curve.tau.empty())
    throw base::FailedError("a threshold has no curve; run `dgap threshold` again");
  const std::size_t nothing = curve.tau.size() - 1;  // tau = 1
  const auto chosen = std::find(curve.tau.begin(), curve.tau.end(), threshold.tau);
  const bool off = threshold.mode == "off" || chosen == curve.tau.end();
  const std::size_t served = off ? nothing : static_cast<std::size_t>(chosen - curve.tau.begin());
  Headline h;
  h.kl_before = curve.kl[nothing], h.kl_after = curve.kl[served];
  h.drift_before = curve.drift[nothing], h.drift_after = curve.drift[served];
  h.top1_before = curve.top1_agreement[nothing], h.top1_after = curve.top1_agreement[served];
  h.perplexity_before = curve.perplexity[nothing], h.perplexity_after = curve.perplexity[served];
  h.correction_rate = off ? 0.0 : curve.rate[served];
  h.kl_worse_share = off ? 0.0 : curve.kl_worse_share[served];
  return h;
}

std::string model_card(const schemas::BaseModel& model, const std::vector<CardEntry>& entries,
                       const ValidationBasis& basis) {
  return front_matter(model) + "\n# DGAP bundle for " + plain(model.name) +
         "\n\nRepairs the next-token logits of this model when it is decoded over a low-bit "
         "key/value cache (DGAP, arXiv:2607.16248). A detector scores each step from the logits "
         "alone; where the score exceeds tau, a corrector edits the largest logits of the step. "
         "Load it "
         "with the dgap runtime, and apply it to raw logits, before penalties, temperature and "
         "truncation.\n\n"
         "- model file SHA-256: `" +
         model.model_sha256 + "`\n- tokenizer SHA-256: `" + model.tokenizer_sha256 +
         "`\n- vocabulary: " + std::to_string(model.vocab_size) + "\n\n" + figures(entries, basis) +
         guarantees(entries) + kLimits;
}

}  // namespace dgap::calibrator
