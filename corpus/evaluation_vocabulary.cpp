#include "corpus/vocabulary.hpp"

namespace dgap::corpus {
namespace {

using Type = Value::Type;

constexpr std::string_view kKeys[] = {
    "apricot", "bicycle", "compass", "dragon",  "eagle",   "falcon",   "garlic",  "harbor",
    "iguana",  "jasmine", "kitten",  "lantern", "marble",  "nickel",   "oyster",  "panther",
    "quiver",  "rocket",  "salmon",  "tiger",   "unicorn", "violin",   "whistle", "yacht",
    "zebra",   "bamboo",  "cactus",  "emerald", "goblet",  "hedgehog", "meadow",  "pumpkin"};

constexpr std::string_view kHidden =
    "Some special magic numbers are hidden within the following text. Make sure to memorize it. I "
    "will quiz you about the numbers afterwards.\n";
constexpr std::string_view kMagicNumber = "One of the special magic numbers for {key} is: {value}.";
constexpr std::string_view kAskNumber =
    "\nWhat is the special magic number for {key} mentioned in the provided text?";
constexpr std::string_view kReplyNumber =
    "The special magic number for {key} mentioned in the provided text is";
constexpr std::string_view kBelow = "Look at the text below.\n\n";

constexpr Form kForms[] = {
    {Kind::passkey,
     "There is important info hidden inside a lot of irrelevant text. Find it and memorize it.\n\n",
     "The pass key is {value}. Remember it. {value} is the pass key.",
     "\n\nWhat is the pass key?",
     "The pass key is",
     {Type::digits, 5, 5}},
    {Kind::single_key, kHidden, kMagicNumber, kAskNumber, kReplyNumber, {Type::digits, 7, 7}},
    {Kind::multi_key, kHidden, kMagicNumber, kAskNumber, kReplyNumber, {Type::digits, 7, 7}, 4},
    {Kind::multi_value,
     kHidden,
     kMagicNumber,
     "\nWhat are all the special magic numbers for {key} mentioned in the provided text?",
     "The special magic numbers for {key} mentioned in the provided text are",
     {Type::digits, 4, 4},
     3,
     3},
    {Kind::uuid,
     "Some special magic uuids are hidden within the following text. Make sure to memorize it. I "
     "will quiz you about the uuids afterwards.\n",
     "One of the special magic uuids for {key} is: {value}.",
     "\nWhat is the special magic uuid for {key} mentioned in the provided text?",
     "The special magic uuid for {key} mentioned in the provided text is",
     {Type::hex, 8, 8}},
    {Kind::phrase,
     kBelow,
     "Only \"{value}\" will please a {key}.",
     "\n\nWhich three words will please a {key}?",
     "The three words that please a {key} are \"",
     {Type::words, 3, 3},
     2},
    {Kind::dense, kHidden, kMagicNumber, kAskNumber, kReplyNumber, {Type::digits, 7, 7}},
    {Kind::reversed,
     kBelow,
     "{value} was written on the card next to the {key}.",
     "\n\nWhich number was written on the card next to the {key}?",
     "The number written on the card next to the {key} is",
     {Type::digits, 6, 6},
     4},
    {Kind::paraphrased,
     kBelow,
     "Old Martha trusts the {key} with {value}.",
     "\n\nWhich figure belongs with the {key}?",
     "The figure that belongs with the {key} is",
     {Type::digits, 6, 6},
     4},
    {Kind::count,
     kBelow,
     kMagicNumber,
     "\n\nForget the text. Count upwards from {value}.",
     "",
     {Type::digits, 6, 6},
     4}};

constexpr std::string_view kNoise[] = {"About {value} people crossed the bridge that week.",
                                       "She had read {value} letters before noon.",
                                       "House {value} stood empty for a long time.",
                                       "The clock had struck {value} times since the wedding.",
                                       "A bill of {value} pounds lay upon the desk."};

}  // namespace

const Vocabulary& evaluation_vocabulary() {
  static constexpr Vocabulary kVocabulary{"evaluation", kKeys, kForms, kNoise, false};
  return kVocabulary;
}

}  // namespace dgap::corpus
