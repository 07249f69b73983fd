#include "engine/tokenizer/sentencepiece_model.hpp"

#include <bit>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "base/files.hpp"

namespace dgap::engine {
namespace {

constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 28;

/// The fields of one message of protocol buffers, one after the other.
class Message {
 public:
  Message(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  /// Goes on to the next field; false at the end.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const std::uint64_t tag = varint();
    field_ = tag >> 3;
    wire_ = static_cast<unsigned>(tag & 7);
    switch (wire_) {
      case 0:
        number_ = varint();
        break;
      case 1:
        text_ = take(8);
        break;
      case 2:
        text_ = take(varint());
        break;
      case 5:
        text_ = take(4);
        break;
      default:
        damaged();
    }
    return true;
  }

  std::uint64_t field() const { return field_; }
  std::string_view text() const { return expect(2), text_; }
  bool boolean() const { return expect(0), number_ != 0; }
  std::int32_t integer() const {
    expect(0);
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(number_));
  }
  float real() const {
    expect(5);
    std::uint32_t bits = 0;
    std::memcpy(&bits, text_.data(), sizeof bits);
    return std::bit_cast<float>(bits);
  }

 private:
  [[noreturn]] void damaged() const {
    throw base::IoError(path_ + ": is not a SentencePiece model, or damaged at byte " +
                        std::to_string(at_) + " of a message");
  }
  void expect(unsigned wire) const {
    if (wire_ != wire) damaged();
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      if (at_ == bytes_.size()) damaged();
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    damaged();
  }
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size() - at_) damaged();
    const std::string_view part = bytes_.substr(at_, size);
    at_ += size;
    return part;
  }

  std::string_view bytes_;
  const std::string& path_;
  std::size_t at_ = 0;
  std::uint64_t field_ = 0, number_ = 0;
  unsigned wire_ = 0;
  std::string_view text_;
};

/// ModelProto of sentencepiece_model.proto, version 0.2; numbers are those of its fields.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), file_(base::read_file(path, kMaxFile)) {}

  SentencePieceModel read() {
    Message model(file_, path_);
    while (model.next()) {
      if (model.field() == 1) pieces_.push_back(piece(model.text()));
      if (model.field() == 2) trainer(model.text());
      if (model.field() == 3) normalizer(model.text());
    }
    check();
    SentencePieceModel out;
    try {
      out.vocabulary = vocabulary_of(pieces_, dummy_prefix_);
    } catch (const base::IoError& error) {
      throw base::IoError(path_ + ": " + error.what());
    } catch (const base::UsageError& error) {
      throw base::UsageError(path_ + ": " + error.what());
    }
    out.bos = checked("bos_id", bos_);
    out.eos = checked("eos_id", eos_);
    return out;
  }

 private:
  SpacedPiece piece(std::string_view bytes) {
    SpacedPiece piece;
    Message message(bytes, path_);
    while (message.next()) {
      if (message.field() == 1) piece.text = message.text();
      if (message.field() == 2) piece.score = message.real();
      if (message.field() == 3) piece.type = type(message.integer());
    }
    return piece;
  }

  SpacedPiece::Type type(std::int32_t number) const {
    if (number >= 1 && number <= 6) return static_cast<SpacedPiece::Type>(number);
    throw base::IoError(path_ + ": a piece has the type " + std::to_string(number));
  }

  void trainer(std::string_view bytes) {
    Message message(bytes, path_);
    while (message.next()) {
      if (message.field() == 3) model_type_ = message.integer();
      if (message.field() == 24) suffix_ = message.boolean();
      if (message.field() == 41) bos_ = message.integer();
      if (message.field() == 42) eos_ = message.integer();
    }
  }

  void normalizer(std::string_view bytes) {
    Message message(bytes, path_);
    while (message.next()) {
      if (message.field() == 2) has_rules_ = !message.text().empty();
      if (message.field() == 3) dummy_prefix_ = message.boolean();
      if (message.field() == 4) removes_spaces_ = message.boolean();
      if (message.field() == 5) escapes_spaces_ = message.boolean();
    }
  }

  void check() const {
    const auto refuse = [&](const std::string& what) {
      throw base::UsageError(path_ + ": " + what + ", which is not supported");
    };
    if (pieces_.empty()) throw base::IoError(path_ + ": holds no SentencePiece model");
    if (model_type_ != 2) {
      refuse("trainer_spec.model_type is " + std::to_string(model_type_) + ", not BPE (2)");
    }
    if (suffix_) refuse("trainer_spec.treat_whitespace_as_suffix is true");
    if (has_rules_) refuse("normalizer_spec.precompiled_charsmap is not empty");
    if (removes_spaces_) refuse("normalizer_spec.remove_extra_whitespaces is true");
    if (!escapes_spaces_) refuse("normalizer_spec.escape_whitespaces is false");
  }

  std::int32_t checked(const char* name, std::int32_t id) const {
    if (id < 0) return -1;
    if (id < static_cast<std::int64_t>(pieces_.size())) return id;
    throw base::IoError(path_ + ": trainer_spec." + name + " is " + std::to_string(id) +
                        "; the vocabulary has " + std::to_string(pieces_.size()) + " tokens");
  }

  std::string path_;
  std::string file_;
  std::vector<SpacedPiece> pieces_;
  // Defaults of the format.
  std::int32_t model_type_ = 1, bos_ = 1, eos_ = 2;
  bool suffix_ = false, has_rules_ = false, dummy_prefix_ = true, removes_spaces_ = true;
  bool escapes_spaces_ = true;
};

}  // namespace

SentencePieceModel read_sentencepiece_model(const std::string& path) { return Reader(path).read(); }

}  // namespace dgap::engine
