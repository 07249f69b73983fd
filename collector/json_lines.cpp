#include "collector/json_lines.hpp"

#include <algorithm>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files.hpp"
#include "collector/chat_template.hpp"

namespace dgap::collector {
namespace {

using nlohmann::json;

constexpr int kDeepest = 64;

/// A line's object; `where` is file:line.
json parse(std::string_view line, const std::string& where) {
  const auto not_too_deep = [&](int depth, json::parse_event_t, json&) {
    if (depth > kDeepest) throw base::IoError(where + ": is nested too deeply");
    return true;
  };
  try {
    json object = json::parse(line, not_too_deep);
    if (object.is_object()) return object;
  } catch (const json::exception& error) {
    throw base::IoError(where + ": is not JSON: " + error.what());
  }
  throw base::IoError(where + ": is not a JSON object");
}

const std::string& text_of(const json& object, const std::string& key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) throw base::IoError(where + ": has no key \"" + key + "\"");
  if (!found->is_string()) {
    throw base::IoError(where + ": \"" + key + "\" is " + found->type_name() + ", expected a text");
  }
  return found->get_ref<const std::string&>();
}

std::vector<ChatMessage> messages_of(const json& object, const std::string& where) {
  const auto found = object.find("messages");
  if (found == object.end() || !found->is_array() || found->empty()) {
    throw base::IoError(where + ": \"messages\" must be a list of {\"role\", \"content\"}");
  }
  std::vector<ChatMessage> messages;
  for (const json& message : *found) {
    const std::string at = where + ": message " + std::to_string(messages.size() + 1);
    if (!message.is_object()) throw base::IoError(at + " is not an object");
    messages.push_back({text_of(message, "role", at), text_of(message, "content", at)});
  }
  return messages;
}

std::string render(const schemas::CorpusConfig& corpus, const json& object,
                   const std::string& where) {
  if (corpus.layout != "chat") return text_of(object, corpus.text_key, where);
  const std::vector<ChatMessage> messages = messages_of(object, where);
  try {
    return render_chat(corpus.chat_template, messages);
  } catch (const base::UsageError& error) {
    throw base::IoError(where + ": " + error.what());
  }
}

std::string name_of(const json& object, const Book& book) {
  const auto id = object.find("id");
  if (id == object.end() || id->is_null()) {
    return book.file.stem().string() + "-" + std::to_string(book.line);
  }
  if (id->is_string() && !id->get_ref<const std::string&>().empty()) return id->get<std::string>();
  if (id->is_number_integer()) return id->dump();
  throw base::IoError(book.where() + ": \"id\" must be a text or an integer");
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
    Book book{"", "", file, line, at, end - at};
    const json object = parse(text, book.where());
    render(corpus, object, book.where());  // a fault is told before anything is decoded
    book.name = name_of(object, book);
    books.push_back(std::move(book));
  }
  if (books.empty()) throw base::IoError(file.string() + ": holds no lines of JSON");
  return books;
}

std::string read_json_line(const schemas::CorpusConfig& corpus, const Book& book) {
  const std::string line = base::read_range(book.file, book.offset, book.length);
  return render(corpus, parse(line, book.where()), book.where());
}

}  // namespace dgap::collector
