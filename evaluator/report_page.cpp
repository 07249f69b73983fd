#include "evaluator/report_page.hpp"

#include "evaluator/plots.hpp"

namespace dgap::evaluator {
namespace {

// Okabe-Ito colours: told apart by readers with any colour vision, on light and dark grounds.
constexpr const char* kStyle = R"css(
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#5b6470;--ground:#fff;--card:#f6f7f9;--line:#d8dde3;
--c0:#d55e00;--c1:#cc79a7;--c2:#009e73;--c3:#0072b2;--c4:#e69f00;--c5:#56b4e9;--c6:#7f6000;--c7:#8a94a0;--c8:#000;--c9:#5d3a9b}
@media(prefers-color-scheme:dark){:root{--ink:#e8eaed;--soft:#a2abb6;--ground:#15181c;--card:#1e2329;--line:#363d46;--c8:#fff;--c9:#b39ddb}}
*{box-sizing:border-box}body{margin:0 auto;max-width:1120px;padding:2rem 1.2rem 4rem;background:var(--ground);color:var(--ink);
font:15px/1.55 system-ui,sans-serif}h1{font-size:1.7rem;margin:0 0 .2rem}h2{margin:2.4rem 0 .4rem;font-size:1.2rem}
p{max-width:76ch}.lead{color:var(--soft);margin-top:0}dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(190px,1fr));gap:.6rem;margin:1.2rem 0}
dl div{background:var(--card);border-radius:8px;padding:.6rem .8rem}dt{color:var(--soft);font-size:.8rem}dd{margin:0;font-weight:600}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.9rem;white-space:nowrap}
td,th{padding:.35rem .7rem;text-align:right;border-bottom:1px solid var(--line)}th:first-child{text-align:left}tr:first-child th{color:var(--soft);font-weight:500;vertical-align:bottom;white-space:normal}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1.2rem}figure{margin:0;background:var(--card);border-radius:8px;padding:.8rem}
figcaption{font-weight:600;margin-bottom:.3rem}svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}svg .label{font-size:12px}svg .note{fill:var(--ink)}
.grid{stroke:var(--line);stroke-width:1}.rule{stroke:var(--soft);stroke-dasharray:2 4}polyline{fill:none;stroke-width:2}.dashed{stroke-dasharray:6 4}
.legend{display:flex;flex-wrap:wrap;gap:.2rem 1rem;font-size:.82rem;color:var(--soft);padding-left:4rem}.legend i{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin-right:.35rem;vertical-align:-1px}
)css";

std::string colours() {
  std::string out;
  for (int i = 0; i < 10; ++i) {
    const std::string n = std::to_string(i), c = "var(--c" + n + ")";
    out += "polyline.s" + n + "{stroke:" + c + "}circle.m" + n + "{fill:" + c + "}rect.b" + n + "{fill:" + c +
           "}i.b" + n + "{background:" + c + "}";
  }
  return out;
}

std::string figure(const std::string& caption, const std::string& plot) {
  return "<figure><figcaption>" + caption + "</figcaption>" + plot + "</figure>";
}

}  // namespace

std::string render(const PageContent& c) {
  std::string out = "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                    "content=\"width=device-width,initial-scale=1\"><title>dgap: " +
                    escape(c.title) + "</title><style>" + kStyle + colours() + "</style></head><body>";
  out += "<h1>" + escape(c.title) + "</h1><p class=\"lead\">What a low-bit key/value cache does to this model on "
         "text it was not calibrated on, and the part of it that the bundle repairs.</p><dl>";
  for (const auto& [name, value] : c.facts) {
    out += "<div><dt>" + escape(name) + "</dt><dd>" + escape(value) + "</dd></div>";
  }
  out += "</dl><h2>The damage</h2><p>Every step is decoded twice over the same tokens: over the exact FP16 cache "
         "(the reference) and over the low-bit cache. KL is KL(reference || quantised) in nats over the full "
         "vocabulary; drift is the distance of the two distributions over the candidates that matter "
         "(mean over all steps); risky steps are distorted but covered, so that a window of "
         "K<sub>b</sub> candidates can repair them; uncovered ones are distorted beyond the window's reach. "
         "Point at a figure for its 95&nbsp;% interval; * = the cap stopped the search for K<sub>b</sub>.</p>"
         "<div class=\"scroll\">" + c.damage + "</div>";
  out += "<div class=\"plots\">" + figure("Coverage of the window (validation books)", c.coverage) +
         figure("KL before and after (test books, logarithmic)", c.bars) +
         (c.by_step.empty() ? "" : figure("KL by decode step, uncorrected", c.by_step)) + "</div>";
  out += "<h2>The repair</h2><p>Corrected is the share of steps whose risk exceeds &tau;. The ceiling gives the "
         "window the reference's shape and mass: no corrector that edits only the window can do better. A corrector "
         "that sees logits alone recovers little of that on book text; the figures say how much. A precision whose "
         "corrector would do harm is exported switched off.</p><div class=\"scroll\">" +
         c.repair + "</div>";
  out += "<h2>The threshold</h2><p>From validation books, which also chose K<sub>b</sub> and stopped the training: "
         "these curves are optimistic; the tables above are from test books only.</p><div class=\"plots\">" +
         c.thresholds + "</div>";
  if (!c.reliability.empty()) {
    out += "<div class=\"plots\">" + figure("Risk as a probability (test books)", c.reliability) + "</div>";
  }
  if (!c.online.empty()) {
    out +=
        "<h3>A rate held at run time</h3><p>A threshold per sequence that follows the budget, "
        "beside the fixed "
        "&tau; (test books). Off budget: |share of corrected steps of a sequence &minus; budget|, "
        "mean over "
        "sequences.</p><div class=\"scroll\">" +
        c.online + "</div>";
  }
  out += "<h2>The correctors' training</h2><p>Figures of this table are of validation steps, which chose setting, seed "
         "and epoch: the more was tried, the more optimistic they are.</p><div class=\"scroll\">" +
         c.training + "</div>";
  if (!c.learning_curves.empty()) {
    out += "<div class=\"plots\">" + figure("Would more traces help? (validation loss)", c.learning_curves) + "</div>";
  }
  out += "<h2>Controls and ceilings</h2><p>KL of the same test steps when the window is edited in ways that tell what "
         "matters, and its change against the uncorrected decode. Quantised ranking: the reference's values in the "
         "quantised order. Noise: the reference's logits with noise as strong as the quantisation's, and the same values "
         "sorted back into the reference's order. Shift: one offset on every logit, which must change nothing. "
         "Corrector at risky steps: the trained corrector with a perfect detector. Ceilings give the window the "
         "reference's shape and mass; the raw copy does without aligning mass and is a warning, not a ceiling.</p>"
         "<div class=\"scroll\">" + c.controls + "</div>";
  out += "<h2>By coverage</h2><p>Where the window holds little of what the reference would say, no edit of it helps "
         "much.</p><div class=\"plots\">" + c.by_coverage + "</div>";
  if (!c.escalation.empty()) {
    out += "<p>Escalated steps are left as they are, for the serving stack to fall back to something else.</p>"
           "<div class=\"scroll\">" + c.escalation + "</div>";
  }
  if (!c.domains.empty()) {
    out += "<h2>By domain</h2><p>Mean KL of validation steps. Where the policy's &tau; makes a domain worse, by more "
           "than two standard errors and 2&nbsp;%, it is raised until none is.</p><div class=\"scroll\">" + c.domains + "</div>";
  }
  if (!c.windows.empty()) {
    out += "<h3>A window per step</h3><p>The smallest window whose predicted coverage suffices, beside "
           "K<sub>b</sub> at every step under the same networks, which were trained on the smaller windows.</p>"
           "<div class=\"scroll\">" + c.windows + "</div>";
  }
  out += "<h2>Retrieval</h2><p>Perplexity hides it: a cache can read fluently and no longer find a number it was "
         "told.</p><div class=\"scroll\">" + c.retrieval + "</div>";
  return out + "</body></html>\n";
}

}  // namespace dgap::evaluator
