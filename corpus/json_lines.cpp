#include "corpus/json_lines.hpp"

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "corpus/chat_template.hpp"
#include "schemas/bundle/strict_json.hpp"

namespace dgap::corpus {
namespace {

using schemas::JsonObject;

constexpr std::size_t kDepth = 64;
constexpr std::size_t kAnySize = std::string::npos;  // the line bounds it

std::vector<ChatMessage> messages_of(JsonObject& object, const std::string& where) {
  const nlohmann::json& list = object.any("messages");
  if (!list.is_array() || list.empty()) {
    object.fail("messages", "must be a list of {\"role\", \"content\"}");
  }
  std::vector<ChatMessage> messages;
  for (const nlohmann::json& item : list) {
    JsonObject message(item, where, "messages." + std::to_string(messages.size()));
    messages.push_back({message.text("role"), message.text("content", kAnySize)});
  }
  return messages;
}

/// The text of a line, which is `where`; `name` gets its id where it has one.
std::string render(const schemas::CorpusConfig& corpus, std::string_view line,
                   const std::string& where, std::string* name = nullptr) {
  const nlohmann::json value = schemas::parse_json_object(line, where, kDepth);
  JsonObject object(value, where, "");
  if (name != nullptr && value.contains("id") && !value["id"].is_null()) {
    constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
    *name = value["id"].is_string() ? object.text("id")
                                    : std::to_string(object.integer("id", -kAny, kAny));
    if (name->empty()) object.fail("id", "is empty");
  }
  if (corpus.layout != "chat") return object.text(corpus.text_key, kAnySize);
  const std::vector<ChatMessage> messages = messages_of(object, where);
  try {
    return render_chat(corpus.chat_template, messages);
  } catch (const base::UsageError& error) {
    throw base::IoError(where + ": " + error.what());
  }
}

}  // namespace

std::vector<Book> list_json_lines(const schemas::CorpusConfig& corpus,
                                  const std::filesystem::path& file) {
  const std::string bytes = base::read_file(file);
  std::vector<Book> books;
  std::int64_t line = 0;
  for (std::size_t at = 0, end = 0; at < bytes.size(); at = end + 1) {
    end = std::min(bytes.find('\n', at), bytes.size());
    ++line;
    const std::string_view text = std::string_view(bytes).substr(at, end - at);
    if (text.find_first_not_of(" \t\r") == text.npos) continue;
    Book book;
    book.name = file.stem().string() + "-" + std::to_string(line);
    book.file = file, book.line = line;
    book.offset = at, book.length = end - at;
    const std::string rendered = render(corpus, text, book.where(), &book.name);
    book.text_sha256 = base::sha256_hex(rendered);
    books.push_back(std::move(book));
  }
  if (books.empty()) throw base::IoError(file.string() + ": holds no lines of JSON");
  return books;
}

std::string read_json_line(const schemas::CorpusConfig& corpus, const Book& book) {
  const std::string line = base::read_range(book.file, book.offset, book.length);
  return render(corpus, line, book.where());
}

}  // namespace dgap::corpus
