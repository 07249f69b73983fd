#include "schemas/config/yaml_tree.hpp"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "base/error.hpp"
#include "base/text.hpp"

namespace dgap::schemas {
namespace {

using Source = std::shared_ptr<const std::string>;

constexpr std::size_t kMaxKeys = 1000;  // of one mapping: keeps the search for duplicates short

std::string location(const std::string& source, int line) {
  return line > 0 ? source + ":" + std::to_string(line) : source;
}

/// Checks bytes before the parser sees them; returns the text without a byte order mark.
std::string_view checked_text(std::string_view text, const std::string& source, bool numbered) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.size() > kMaxYamlText) {
    throw base::UsageError(source + ": is " + std::to_string(text.size()) +
                           " bytes long; a configuration has at most 1 MiB");
  }
  if (text.substr(0, 3) == kByteOrderMark) text.remove_prefix(3);
  const auto fail = [&](std::size_t at, const std::string& what) {
    const auto line = static_cast<int>(std::count(text.begin(), text.begin() + at, '\n')) + 1;
    throw base::UsageError(location(source, numbered ? line : 0) + ": " + what);
  };
  const std::size_t valid = base::valid_utf8_prefix(text);
  if (valid < text.size()) fail(valid, "invalid UTF-8 at byte " + std::to_string(valid));

  bool indentation = true;  // only blanks and "-" so far in this line
  std::size_t tab = std::string_view::npos;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\n' || c == '\r') {
      indentation = true, tab = std::string_view::npos;
    } else if (c != '\t' && (c < 0x20 || c == 0x7f)) {
      fail(i, "control character " + std::to_string(c) + " at byte " + std::to_string(i));
    } else if (indentation && c == '\t') {
      tab = std::min(tab, i);
    } else if (indentation && c != ' ' && c != '-') {
      if (tab < i && c != '#') fail(tab, "a tab is used as indentation; YAML wants spaces");
      indentation = false;
    }
  }
  return text;
}

std::size_t bytes_of(const YamlNode& node) {
  std::size_t bytes = sizeof(YamlNode) + node.text.size();
  for (const YamlKey& key : node.keys) bytes += sizeof(YamlKey) + key.text.size();
  for (const YamlNode& item : node.items) bytes += bytes_of(item);
  return bytes;
}

int height_of(const YamlNode& node) {
  int height = 0;
  for (const YamlNode& item : node.items) height = std::max(height, height_of(item));
  return height +
         (node.kind == YamlNode::Kind::scalar || node.kind == YamlNode::Kind::nothing ? 0 : 1);
}

/// Builds the tree from the parser's events. It throws from within them, which also bounds the
/// parser's own recursion: a container is announced before its contents are parsed.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(Source source, bool numbered) : source_(std::move(source)), numbered_(numbered) {}

  YamlNode take() {
    if (!wrong_key_.empty()) throw base::UsageError(wrong_key_);
    return std::move(root_);
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      fail(line_of(mark), "a second YAML document begins; a configuration has one");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (wants_key()) return add_wrong_key(line_of(mark), "an empty key");
    YamlNode node = made(YamlNode::Kind::nothing, mark);
    if (!stack_.empty() && !stack_.back().node.keys.empty()) {
      node.line = stack_.back().node.keys.back().line;  // the parser's mark is the next token's
    }
    add(std::move(node), anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    if (wants_key()) {
      if (value == "<<" && tag == "?") {
        fail(line_of(mark), "merge keys (<<) are not supported; write the keys out");
      }
      return add_key(value, line_of(mark));
    }
    YamlNode node = made(YamlNode::Kind::scalar, mark);
    node.text = value;
    node.quoted = tag != "?" && !tag.empty();
    add(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::list, mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(YamlNode::Kind::map, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (wants_key()) fail(line_of(mark), "a key must be written out, not given as an alias");
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      fail(line_of(mark), "an alias refers to something that contains it");
    if (static_cast<int>(stack_.size()) + height_of(found->second) > kMaxYamlDepth) {
      fail_depth(line_of(mark));
    }
    charge(bytes_of(found->second), line_of(mark));
    add(found->second, 0);
  }

 private:
  struct Frame {
    YamlNode node;
    YAML::anchor_t anchor;
    bool is_key;
  };

  int line_of(const YAML::Mark& mark) const { return numbered_ ? mark.line + 1 : 0; }

  std::string message(int line, const std::string& what) const {
    std::string path;
    for (const Frame& frame : stack_) {
      if (!frame.node.keys.empty()) path += frame.node.keys.back().text + ".";
    }
    if (!path.empty()) path.back() = ':';
    return location(*source_, line) + ": " + (path.empty() ? "" : path + " ") + what;
  }
  [[noreturn]] void fail(int line, const std::string& what) const {
    throw base::UsageError(message(line, what));
  }
  [[noreturn]] void fail_depth(int line) const {
    throw base::UsageError(location(*source_, line) + ": nested deeper than " +
                           std::to_string(kMaxYamlDepth) + " levels");
  }

  void check_tag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag.empty() || tag == "?" || tag == "!" || tag == "tag:yaml.org,2002:str") return;
    fail(line_of(mark),
         "the tag " + quoted_for_message(tag) + " is not supported; types come from the schema");
  }

  bool wants_key() const {
    if (stack_.empty()) return false;
    const YamlNode& node = stack_.back().node;
    return node.kind == YamlNode::Kind::map && node.keys.size() == node.items.size();
  }

  YamlNode made(YamlNode::Kind kind, const YAML::Mark& mark) const {
    YamlNode node;
    node.kind = kind;
    node.source = source_;
    node.line = line_of(mark);
    return node;
  }

  void charge(std::size_t bytes, int line) {
    bytes_ += bytes;
    if (bytes_ > kMaxYamlTree) {
      throw base::UsageError(
          location(*source_, line) +
          ": holds more values than a configuration can have (aliases expanded)");
    }
  }

  void add_key(const std::string& text, int line) {
    std::vector<YamlKey>& keys = stack_.back().node.keys;
    if (keys.size() == kMaxKeys)
      fail(line, "a mapping of more than " + std::to_string(kMaxKeys) + " keys");
    const auto same = std::find_if(keys.begin(), keys.end(),
                                   [&](const YamlKey& key) { return key.text == text; });
    const int first = same == keys.end() ? 0 : same->line;
    const bool duplicate = same != keys.end();
    keys.push_back({text, line});
    charge(sizeof(YamlKey) + text.size(), line);
    if (duplicate) fail(line, "duplicate key; first given in line " + std::to_string(first));
  }

  /// A key that is no text. An error only once the syntax has proved right, because an unclosed
  /// bracket looks like one.
  void add_wrong_key(int line, const std::string& what) {
    if (wrong_key_.empty()) wrong_key_ = message(line, what);
    add_key("? " + std::to_string(stack_.back().node.keys.size()), line);
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag,
            YAML::anchor_t anchor) {
    if (static_cast<int>(stack_.size()) >= kMaxYamlDepth) fail_depth(line_of(mark));
    check_tag(mark, tag);
    stack_.push_back({made(kind, mark), anchor, wants_key()});
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    if (frame.is_key) {
      return add_wrong_key(frame.node.line, "a key must be text, not a list or a mapping");
    }
    add(std::move(frame.node), frame.anchor);
  }

  void add(YamlNode node, YAML::anchor_t anchor) {
    charge(sizeof(YamlNode) + node.text.size(), node.line);
    if (anchor != 0) {
      charge(bytes_of(node), node.line);
      anchors_.insert_or_assign(anchor, node);
    }
    if (stack_.empty()) {
      root_ = std::move(node);
    } else {
      stack_.back().node.items.push_back(std::move(node));
    }
  }

  Source source_;
  bool numbered_;
  int documents_ = 0;
  std::size_t bytes_ = 0;
  std::string wrong_key_;
  YamlNode root_;
  std::vector<Frame> stack_;
  std::map<YAML::anchor_t, YamlNode> anchors_;  // complete ones only
};

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i].text == key) return &items[i];
  }
  return nullptr;
}

YamlNode* YamlNode::find(std::string_view key) {
  return const_cast<YamlNode*>(static_cast<const YamlNode&>(*this).find(key));
}

std::string YamlNode::where(int at_line) const {
  return location(source ? *source : std::string("configuration"), at_line);
}

std::string YamlNode::shown() const {
  switch (kind) {
    case Kind::scalar:
      return (quoted ? "the text " : "") + quoted_for_message(text);
    case Kind::list:
      return "a list";
    case Kind::map:
      return "a mapping";
    case Kind::nothing:
      break;
  }
  return "nothing";
}

std::string quoted_for_message(std::string_view text) {
  constexpr std::size_t kShown = 60;
  constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  std::size_t end = std::min(text.size(), kShown);
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  for (const char c : text.substr(0, end)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += std::string("\\x") + kHex[byte >> 4] + kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + (end < text.size() ? "...\"" : "\"");
}

void fail_at(const YamlNode& node, std::string_view path, std::string_view what) {
  throw base::UsageError(node.where() + ": " + (path.empty() ? "" : std::string(path) + ": ") +
                         std::string(what));
}

YamlNode parse_yaml(std::string_view text, std::string_view source, bool numbered_lines) {
  const auto shared_source = std::make_shared<const std::string>(source);
  const std::string_view checked = checked_text(text, *shared_source, numbered_lines);
  TreeBuilder builder(shared_source, numbered_lines);
  try {
    std::istringstream stream{std::string(checked)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& error) {
    const int line = numbered_lines && error.mark.line >= 0 ? error.mark.line + 1 : 0;
    throw base::UsageError(location(*shared_source, line) + ": is not valid YAML: " + error.msg);
  }
  YamlNode root = builder.take();
  if (root.source == nullptr) root.source = shared_source;
  return root;
}

}  // namespace dgap::schemas
