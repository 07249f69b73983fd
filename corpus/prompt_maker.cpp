#include "corpus/prompt_maker.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "corpus/chat_template.hpp"

namespace dgap::corpus {
namespace {

constexpr const char* kSystem = "You are a helpful AI assistant";
constexpr int kCounted = 3;         // numbers that the count control shows, and asks for
constexpr int kNoiseStep = 8;       // sentences per sentence of noise
constexpr int kDenseNoiseStep = 3;  // the same in prompts of kind dense

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out(text);
  for (std::size_t at = out.find(what); at != out.npos; at = out.find(what, at + by.size()))
    out.replace(at, what.size(), by);
  return out;
}

std::string filled(std::string_view text, std::string_view key, std::string_view value) {
  return replaced(replaced(text, "{key}", key), "{value}", value);
}

/// "a", "a and b", "a, b, and c".
std::string listed(const std::vector<std::string>& values) {
  std::string text = values.front();
  for (std::size_t i = 1; i < values.size(); ++i) {
    const bool last = i + 1 == values.size();
    text += (values.size() > 2 ? ", " : " ") + std::string(last ? "and " : "") + values[i];
  }
  return text;
}

std::string counted(std::int64_t from) {
  std::string text;
  for (std::int64_t i = from; i < from + kCounted; ++i)
    text += (i > from ? ", " : "") + std::to_string(i);
  return text;
}

template <class T>
const T& pick(std::span<const T> items, base::Random& random) {
  return items[random.below(items.size())];
}

}  // namespace

/// What one prompt hides and asks.
struct PromptMaker::Draw {
  const Form* form = nullptr;
  std::vector<std::string> needles;  // in the order of the text
  std::string question, reply, answer;
};

std::int64_t random_length(std::int64_t most, base::Random& random) {
  const std::int64_t least = most / 2;
  return least +
         static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(most - least) + 1));
}

PromptMaker::PromptMaker(const Vocabulary& vocabulary, const engine::Tokenizer& tokenizer,
                         std::string chat_template)
    : vocabulary_(vocabulary), tokenizer_(tokenizer), chat_template_(std::move(chat_template)) {
  const std::string sample = render_chat(chat_template_, {{"user", "x"}});
  chat_ = tokenizer.encode(sample, true) != tokenizer.encode(sample, false);
}

std::string PromptMaker::value_of(const Value& value, base::Random& random) const {
  const int length = value.shortest + static_cast<int>(random.below(static_cast<std::uint64_t>(
                                          value.longest - value.shortest + 1)));
  std::string text;
  if (value.type == Value::Type::words) {
    for (int i = 0; i < length; ++i)
      text += (i > 0 ? " " : "") + std::string(pick(vocabulary_.keys, random));
    return text;
  }
  const std::string_view digits =
      value.type == Value::Type::hex ? "0123456789abcdef" : "0123456789";
  const auto digit = [&](std::uint64_t least) {
    return digits[least + random.below(digits.size() - least)];
  };
  for (int i = 0; i < length; ++i) text += digit(i == 0 ? 1 : 0);
  if (value.type == Value::Type::hex) {
    text += '-';
    for (int i = 0; i < 4; ++i) text += digit(0);
  }
  return text;
}

PromptMaker::Draw PromptMaker::draw(Kind kind, base::Random& random) const {
  std::vector<const Form*> forms;
  for (const Form& form : vocabulary_.forms) {
    if (form.kind == kind) forms.push_back(&form);
  }
  Draw draw;
  draw.form = pick(std::span<const Form* const>(forms), random);
  const Form& form = *draw.form;
  const auto keys = random.permutation(static_cast<std::int32_t>(vocabulary_.keys.size()));
  const auto key = [&](int i) { return vocabulary_.keys[static_cast<std::size_t>(keys[i])]; };
  std::vector<std::string> asked;
  for (int i = 0; i < form.needles; ++i) {
    const bool of_asked = i < form.asked;
    const std::string value = value_of(form.value, random);
    draw.needles.push_back(filled(form.needle, key(of_asked ? 0 : i), value));
    if (of_asked) asked.push_back(value);
  }
  if (form.asked == 1) random.shuffle(std::span(draw.needles));  // several values keep their order
  if (kind == Kind::count) {
    const auto start = static_cast<std::int64_t>(21 + random.below(39));
    draw.question = filled(form.question, key(0), std::to_string(start));
    draw.reply = counted(start) + ",";
    draw.answer = " " + counted(start + kCounted);
    return draw;
  }
  draw.question = filled(form.question, key(0), "");
  draw.reply = filled(form.reply, key(0), "");
  const bool quoted = draw.reply.back() == '\'' || draw.reply.back() == '"';
  draw.answer = (quoted ? "" : " ") + listed(asked);
  return draw;
}

std::vector<std::string> PromptMaker::body_of(const Draw& draw, const Haystack& haystack,
                                              std::int64_t tokens, base::Random& random) const {
  const bool dense = draw.form->kind == Kind::dense;
  const bool noisy = dense || (vocabulary_.noise_everywhere && random.below(2) == 0);
  const int step = dense ? kDenseNoiseStep : kNoiseStep;
  // The last start that leaves enough; the whole text where it is shorter than that.
  std::size_t starts = haystack.sentences.size();
  for (std::int64_t left = 0; starts > 0 && left < tokens;) left += haystack.tokens[--starts];
  const std::size_t first = random.below(starts + 1);
  const std::uint64_t noise_at = random.below(static_cast<std::uint64_t>(step));
  std::vector<std::string> body;
  std::int64_t used = 0;
  for (std::size_t i = first; i < haystack.sentences.size(); ++i) {
    if (used + haystack.tokens[i] > tokens) break;
    body.push_back(haystack.sentences[i]);
    used += haystack.tokens[i];
    if (!noisy || (i - first) % static_cast<std::size_t>(step) != noise_at) continue;
    body.push_back(
        filled(pick(vocabulary_.noise, random), "", value_of({Value::Type::digits, 2, 6}, random)));
    used += std::ssize(tokenizer_.encode(" " + body.back()));
  }
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < draw.needles.size(); ++i)
    places.push_back(random.below(body.size() + 1));
  std::sort(places.begin(), places.end());
  for (std::size_t i = places.size(); i-- > 0;)
    body.insert(body.begin() + static_cast<std::ptrdiff_t>(places[i]), draw.needles[i]);
  return body;
}

std::string PromptMaker::render(const Draw& draw, const std::vector<std::string>& body) const {
  std::string ask(draw.form->intro);
  for (std::size_t i = 0; i < body.size(); ++i) ask += (i > 0 ? " " : "") + body[i];
  ask += draw.question;
  if (!chat_) return ask + "\n" + draw.reply;
  const std::string whole =
      render_chat(chat_template_, {{"system", kSystem}, {"user", ask}, {"assistant", draw.reply}});
  return whole.substr(0, whole.rfind(draw.reply) + draw.reply.size());
}

Prompt PromptMaker::encode(const Draw& draw, std::string prompt) const {
  Prompt one;
  one.kind = draw.form->kind;
  const std::vector<std::int32_t> before = tokenizer_.encode(prompt, true);
  one.text = std::move(prompt) + draw.answer;
  std::vector<std::int32_t> ids = tokenizer_.encode(one.text, true);
  auto split = std::mismatch(before.begin(), before.end(), ids.begin(), ids.end()).second;
  while (ids.end() - split > 1 && tokenizer_.decode_next({&*split, 1}) == " ") ++split;
  one.answer.assign(split, ids.end());
  if (tokenizer_.bos() >= 0) one.prompt.push_back(tokenizer_.bos());
  one.prompt.insert(one.prompt.end(), ids.begin(), split);
  return one;
}

Prompt PromptMaker::make(Kind kind, const Haystack& haystack, std::int64_t tokens,
                         base::Random& random) const {
  const Draw what = draw(kind, random);
  const auto size_of = [](const Prompt& p) { return std::ssize(p.prompt) + std::ssize(p.answer); };
  Prompt one = encode(what, render(what, what.needles));
  std::int64_t room = tokens - size_of(one);
  if (room < 0) {
    throw base::FailedError("a retrieval prompt of kind " + std::string(name_of(kind)) + " takes " +
                            std::to_string(size_of(one)) + " tokens without any text, more than " +
                            std::to_string(tokens));
  }
  // Sentences may take more tokens together than one by one.
  for (;;) {
    base::Random place = random;
    one = encode(what, render(what, body_of(what, haystack, room, place)));
    const std::int64_t excess = size_of(one) - tokens;
    if (excess <= 0) {
      random = place;
      return one;
    }
    room = std::max<std::int64_t>(room - excess, 0);
  }
}

}  // namespace dgap::corpus
