// make_fixtures FOLDER PREFIX: writes one bundle per form, FOLDER/PREFIX-<form>/, and what it does
// to some rows, FOLDER/PREFIX-<form>.json. Run once per format version or new form:
//
//   build/dev/tests/runtime/dgap_make_fixtures tests/runtime/fixtures bundle-1.0
//
// What is there already is left alone: fixtures are what earlier versions wrote and did.
#include <algorithm>
#include <bit>
#include <cstdio>
#include <exception>

#include "base/half.hpp"
#include "base/random.hpp"
#include "runtime/features.hpp"
#include "tests/runtime/fixture.hpp"
#include "tests/runtime/rows.hpp"
#include "tests/runtime/toy_bundle.hpp"

namespace {

using namespace dgap;

/// One form of bundle: what it takes from the toy's precision, and what it changes.
struct Form {
  const char* name;
  const char* precision;
  void (*change)(schemas::Bundle&, schemas::PrecisionEntry&);
  std::int64_t vocabulary = 64;
  int window = 5;
};

void keep(schemas::Bundle&, schemas::PrecisionEntry&) {}

void take_tokens(schemas::Bundle& bundle, schemas::PrecisionEntry& entry) {
  entry.corrector.inputs = {"logits", "tokens"};
  constexpr int kBoth = runtime::kDetectorWidth + runtime::kCandidateWidth;
  test::add_network(bundle.tensors, "hidden.corrector.shape", kBoth, {11}, 31);
  test::add_network(bundle.tensors, "hidden.corrector.mass", runtime::kDetectorWidth, {7}, 32);
  test::add_network(bundle.tensors, "hidden.corrector.query", runtime::kDetectorWidth, {}, 33, 5);
  std::erase_if(bundle.tensors, [](const auto& item) {
    return item.first.starts_with("hidden.corrector.shape.2") ||
           item.first.starts_with("hidden.corrector.mass.2");
  });
  entry.corrector.layers = 2;
}

void escalate(schemas::Bundle& bundle, schemas::PrecisionEntry& entry) {
  entry.detector.escalate = true;
  entry.tau = 0.2, entry.escalate_tau = 0.5;
  test::add_network(bundle.tensors, "linear.detector.escalate", runtime::kDetectorWidth, {}, 34);
}

void adapt(schemas::Bundle&, schemas::PrecisionEntry& entry) { entry.window_mass = 0.6; }

void restore_all(schemas::Bundle&, schemas::PrecisionEntry& entry) { entry.tau = 0.0; }

void follow_rate(schemas::Bundle&, schemas::PrecisionEntry& entry) {
  entry.online = schemas::OnlineRate{0.4, 0.05, 0.1, 0.9};
}

constexpr Form kForms[] = {{"linear", "linear", keep},
                           {"mlp", "mlp", keep},
                           {"transformer", "transformer", keep},
                           {"window", "window", keep},
                           {"context", "context", keep},
                           {"tokens", "hidden", take_tokens},
                           {"hidden", "hidden", keep},
                           {"escalate", "linear", escalate},
                           {"adaptive", "always", adapt},
                           {"online", "mlp", follow_rate},
                           {"long-rows", "mlp", restore_all, 5000, 80}};

/// The form's one precision and the tensors that it uses.
schemas::Bundle bundle_of(const Form& form, std::uint64_t seed) {
  schemas::Bundle bundle = test::toy_context_bundle(form.vocabulary, form.window, seed);
  schemas::PrecisionEntry entry = bundle.precisions.at(form.precision);
  form.change(bundle, entry);
  bundle.precisions = {{form.name, entry}};
  std::erase_if(bundle.tensors, [&](const auto& item) {
    const auto under = [&](const std::string& prefix) {
      return !prefix.empty() && item.first.starts_with(prefix + ".");
    };
    return !under(entry.detector.tensors) && !under(entry.corrector.tensors);
  });
  return bundle;
}

/// Rows of each kind and type; of long ones, which are summed in two ways (runtime/row_scan.hpp),
/// two do.
std::vector<test::ServedRow> rows(std::int64_t width, std::uint64_t seed) {
  base::Random random(seed, "rows");
  std::vector<test::ServedRow> rows;
  const auto add = [&](std::int32_t dtype, const std::vector<float>& logits) {
    test::ServedRow row;
    row.dtype = dtype;
    for (const float x : logits) {
      row.logits.push_back(dtype == DGAP_F32   ? std::bit_cast<std::uint32_t>(x)
                           : dtype == DGAP_F16 ? base::to_half(x)
                                               : base::to_bfloat16(x));
    }
    rows.push_back(row);
  };
  if (width > 1000) {
    add(DGAP_F32, test::random_row(width, 3, 0, random));
    add(DGAP_BF16, test::random_row(width, 4, 0, random));
    return rows;
  }
  for (const double spread : {0.5, 1.0, 3.0, 8.0})
    add(DGAP_F32, test::random_row(width, spread, 0, random));
  add(DGAP_F32, test::random_row(width, 2, 0.5, random));  // ties
  std::vector<float> masked = test::random_row(width, 3, 0, random);
  for (std::size_t i = 0; i < masked.size(); ++i) {
    if (i % 16 != 3) masked[i] = -test::kInfinity;  // fewer are left than the window holds
  }
  add(DGAP_F32, masked);
  masked[3] = test::kNaN;
  add(DGAP_F32, masked);
  add(DGAP_F16, test::random_row(width, 2, 0, random));
  add(DGAP_BF16, test::random_row(width, 2, 0, random));
  return rows;
}

void make(const std::filesystem::path& folder, const std::string& prefix, const Form& form) {
  const std::filesystem::path place = folder / (prefix + "-" + form.name);
  if (std::filesystem::exists(place)) {
    std::printf("%s is there already\n", place.c_str());
    return;
  }
  const auto seed = static_cast<std::uint64_t>(&form - kForms) + 1;
  const schemas::Bundle bundle = bundle_of(form, seed);
  test::write_toy_bundle(place, bundle);
  const schemas::PrecisionEntry& entry = bundle.precisions.at(form.name);
  test::Fixture fixture{form.name,
                        test::toy_text(form.vocabulary, 50, seed),
                        {},
                        entry.online.has_value(),
                        rows(form.vocabulary, seed),
                        0};
  if (entry.corrector.takes("hidden")) fixture.hidden = test::toy_hidden(seed);
  test::write_fixture(place.string() + ".json", test::serve(place, fixture));
  std::printf("%s\n", place.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    for (const Form& form : kForms) make(argv[1], argv[2], form);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
