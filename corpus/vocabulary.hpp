#pragma once
#include <span>
#include <string_view>

#include "schemas/config/retrieval_kinds.hpp"

/// The words that retrieval prompts are made of, in two halves that share neither keys nor wording:
/// what is calibrated or trained on one half says nothing about the other.
namespace dgap::corpus {

enum class Kind {
  passkey,      // one value, without a key
  single_key,   // one key and its value
  multi_key,    // several, and one is asked for
  multi_value,  // several values of one key, all asked for
  uuid,         // hexadecimal values
  phrase,       // values of three words
  dense,        // single_key among many other numbers
  reversed,     // the value comes before its key
  paraphrased,  // the question has other words than the text
  count         // control: not to retrieve, but to count
};

inline constexpr auto& kKindNames = schemas::kRetrievalKinds;
constexpr std::string_view name_of(Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }
/// UsageError naming those there are.
Kind kind_of(std::string_view name);

/// What stands for {value}.
struct Value {
  enum class Type { digits, hex, words };
  Type type = Type::digits;
  int shortest = 5, longest = 5;  // digits or hexadecimal digits; words
};

/// One way to hide and ask for something; {key} and {value} are filled in. `needles` are hidden in
/// the text, `asked` of them (of one key) make the answer.
struct Form {
  Kind kind = Kind::passkey;
  std::string_view intro, needle, question, reply;
  Value value;
  int needles = 1, asked = 1;
};

struct Vocabulary {
  std::string_view name;
  std::span<const std::string_view> keys;
  std::span<const Form> forms;              // at least one of each kind
  std::span<const std::string_view> noise;  // sentences with a {value} that nobody asks for
  bool noise_everywhere = false;            // in half of all prompts, besides those of kind dense
};

/// For traces, training and bit allocation.
const Vocabulary& calibration_vocabulary();
/// For the evaluation's tasks.
const Vocabulary& evaluation_vocabulary();

}  // namespace dgap::corpus
