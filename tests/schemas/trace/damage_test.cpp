// Files that are cut off, altered, or made to harm.
#include <gmock/gmock.h>
#include <hdf5.h>

#include <functional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/random.hpp"
#include "synthetic_trace.hpp"
#include "trace_equality.hpp"

#ifdef __SANITIZE_ADDRESS__
// HDF5 leaks what it had made when it meets a damaged file.
extern "C" const char* __lsan_default_suppressions() { return "leak:libhdf5"; }
#endif

namespace dgap::schemas {
namespace {

using ::testing::HasSubstr;
using testing::make_synthetic;
using testing::TemporaryFolder;

const TraceSelection kEverything{{}, true, true, true};

std::string message_of_reading(const std::filesystem::path& path) {
  try {
    read_trace_part(path, kEverything);
  } catch (const base::IoError& error) {
    return error.what();
  }
  return "read";
}

TEST(Damage, TruncatedAnywhere) {
  const TemporaryFolder folder;
  write_trace_part(folder / "part.h5", make_synthetic({.with_hidden = true}));
  const std::string bytes = base::read_file(folder / "part.h5");
  for (std::size_t length = 0; length < bytes.size(); length += length < 200 ? 13 : 331) {
    testing::write_bytes(folder / "cut.h5", std::string_view(bytes).substr(0, length));
    EXPECT_NE(message_of_reading(folder / "cut.h5"), "read") << length << " of " << bytes.size();
  }
}

/// Reads copies of `bytes` with one bit changed. Whatever can still be read must be right.
int refused_flips(const std::filesystem::path& path, const std::string& bytes,
                  const TracePart& part, int count) {
  base::Random random(7);
  int refused = 0;
  for (int i = 0; i < count; ++i) {
    std::string altered = bytes;
    const std::size_t at = random.below(bytes.size());
    altered[at] = static_cast<char>(altered[at] ^ static_cast<char>(1 << random.below(8)));
    testing::write_bytes(path, altered);
    try {
      const TracePart read = read_trace_part(path, kEverything);
      testing::expect_equal(read.reference, part.reference);
      for (std::size_t p = 0; p < part.columns.size(); ++p)
        testing::expect_equal(read.columns[p], part.columns[p]);
      EXPECT_EQ(read.tokens, part.tokens);
      EXPECT_EQ(read.step_target, part.step_target);
    } catch (const base::IoError&) {
      ++refused;
    }
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << "byte " << at;
      break;
    }
  }
  return refused;
}

// Metadata and chunks carry checksums; the rest, the configuration and unused bytes, is covered by
// the index's SHA-256.
TEST(Damage, FlippedBits) {
  const TemporaryFolder folder;
  const TracePart part = make_synthetic({.with_hidden = true});
  write_trace_part(folder / "part.h5", part);
  EXPECT_GT(refused_flips(folder / "bad.h5", base::read_file(folder / "part.h5"), part, 800), 300);
}

TEST(Damage, NotHdf5) {
  const TemporaryFolder folder;
  testing::write_bytes(folder / "text.h5", "format: dgap-trace\n");
  EXPECT_THAT(message_of_reading(folder / "text.h5"),
              HasSubstr("text.h5: cannot be opened as HDF5"));
  EXPECT_THAT(message_of_reading(folder / "none.h5"), HasSubstr("none.h5: cannot be opened"));
  std::filesystem::create_directory(folder / "folder.h5");
  EXPECT_THAT(message_of_reading(folder / "folder.h5"), HasSubstr("folder.h5"));
}

/// A good file, opened for changes with HDF5 itself.
class Forged : public ::testing::Test {
 protected:
  void forge(const std::function<void(hid_t)>& change) {
    std::filesystem::remove(path_);
    write_trace_part(path_, make_synthetic());
    const hid_t file = H5Fopen(path_.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    ASSERT_GE(file, 0);
    change(file);
    ASSERT_GE(H5Fclose(file), 0);
  }
  /// Replaces a dataset by an empty one.
  static void replace(hid_t file, const char* name, hid_t type, std::vector<hsize_t> extent,
                      const std::function<void(hid_t)>& creation = {}) {
    H5Ldelete(file, name, H5P_DEFAULT);
    const hid_t space =
        extent.empty() ? H5Screate(H5S_SCALAR)
                       : H5Screate_simple(static_cast<int>(extent.size()), extent.data(), nullptr);
    const hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    if (creation) creation(properties);
    const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    ASSERT_GE(set, 0) << name;
    H5Dclose(set), H5Pclose(properties), H5Sclose(space);
  }
  static void chunks_of(hid_t properties, hsize_t chunk) { H5Pset_chunk(properties, 1, &chunk); }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "part.h5";
};

TEST_F(Forged, ExtentsWithoutStorage) {
  forge([](hid_t file) {
    replace(file, "tokens", H5T_STD_I32LE, {hsize_t{1} << 60}, [](hid_t p) { chunks_of(p, 1024); });
  });
  EXPECT_THAT(message_of_reading(path_),
              HasSubstr("tokens: claims 1152921504606846976 values of 4 bytes, more than"));
  forge([](hid_t file) {
    replace(file, "steps/unit", H5T_STD_I32LE, {hsize_t{1} << 34},
            [](hid_t p) { chunks_of(p, 1024); });
  });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("steps/unit: claims"));
  forge([](hid_t file) { replace(file, "config", H5T_STD_I32LE, {hsize_t{1} << 40}); });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("config: "));
}

TEST_F(Forged, HugeChunks) {
  forge([](hid_t file) {
    H5Ldelete(file, "tokens", H5P_DEFAULT);
    const hsize_t extent = 21, most = H5S_UNLIMITED, chunk = hsize_t{1} << 29;
    const hid_t space = H5Screate_simple(1, &extent, &most),
                properties = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(properties, 1, &chunk);
    const hid_t set =
        H5Dcreate2(file, "tokens", H5T_STD_I32LE, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    ASSERT_GE(set, 0);
    H5Dclose(set), H5Pclose(properties), H5Sclose(space);
  });
  EXPECT_THAT(message_of_reading(path_),
              HasSubstr("tokens: has chunks that are larger than the dataset"));
}

TEST_F(Forged, WrongTypes) {
  forge([](hid_t file) { replace(file, "reference/lse", H5T_IEEE_F32LE, {18}); });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("reference/lse: "));
  forge([](hid_t file) {
    replace(file, "units/context", H5T_STD_I64LE, {3}, [](hid_t p) { chunks_of(p, 3); });
  });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("units/context: is not of 32-bit integers"));
  forge([](hid_t file) {
    replace(file, "units/book", H5T_STD_I64LE, {3}, [](hid_t p) { chunks_of(p, 3); });
  });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("units/book: is not text"));
  forge([](hid_t file) {
    H5Ldelete(file, "tokens", H5P_DEFAULT);
    H5Gclose(H5Gcreate2(file, "tokens", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
  });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("tokens: is not a dataset"));
}

TEST_F(Forged, WrongExtents) {
  forge([](hid_t file) {
    replace(file, "tokens", H5T_STD_I32LE, {3, 4}, [](hid_t p) {
      const hsize_t chunk[] = {3, 4};
      H5Pset_chunk(p, 2, chunk);
    });
  });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("tokens: has 2 dimensions, expected 1"));
  forge([](hid_t file) {
    replace(file, "precisions/K2V2/kl", H5T_IEEE_F32LE, {17}, [](hid_t p) { chunks_of(p, 17); });
  });
  EXPECT_THAT(message_of_reading(path_),
              HasSubstr("precisions/K2V2/kl: has extent [17], expected [18]"));
  forge([](hid_t file) { H5Ldelete(file, "reference/top/ids", H5P_DEFAULT); });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("reference/top/ids: is missing"));
}

TEST_F(Forged, DataInOtherFiles) {
  forge([](hid_t file) {
    replace(file, "tokens", H5T_STD_I32LE, {33},
            [](hid_t p) { H5Pset_external(p, "/etc/passwd", 0, 132); });
  });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("tokens: keeps its data in another file"));
  forge([](hid_t file) {
    H5Ldelete(file, "tokens", H5P_DEFAULT);
    H5Lcreate_external("other.h5", "/tokens", file, "tokens", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("tokens: is a soft or external link"));
  forge([](hid_t file) {
    H5Ldelete(file, "reference", H5P_DEFAULT);
    H5Lcreate_soft("/reference", file, "reference", H5P_DEFAULT, H5P_DEFAULT);
  });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("reference/"));
}

std::size_t pass_through(unsigned, std::size_t, const unsigned*, std::size_t bytes, std::size_t*,
                         void**) {
  return bytes;
}

TEST_F(Forged, MissingFilter) {
  constexpr H5Z_filter_t kFilter = 31999;
  const H5Z_class2_t filter{H5Z_CLASS_T_VERS, kFilter, 1,       1,
                            "squeezer",       nullptr, nullptr, pass_through};
  H5Zregister(&filter);
  forge([](hid_t file) {
    std::vector<std::int32_t> tokens(33);
    replace(file, "tokens", H5T_STD_I32LE, {33}, [](hid_t p) {
      chunks_of(p, 33);
      H5Pset_filter(p, kFilter, H5Z_FLAG_MANDATORY, 0, nullptr);
    });
    const hid_t set = H5Dopen2(file, "tokens", H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, tokens.data());
    H5Dclose(set);
  });
  H5Zunregister(kFilter);
  EXPECT_THAT(message_of_reading(path_),
              HasSubstr("tokens: was written with filter 31999 (squeezer)"));
}

TEST_F(Forged, VersionsAndFormats) {
  const auto set_text = [](hid_t file, const char* name, const std::string& text) {
    H5Adelete(file, name);
    const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, text.size());
    const hid_t attribute = H5Acreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, text.data());
    H5Aclose(attribute), H5Sclose(space), H5Tclose(type);
  };
  forge([&](hid_t file) { set_text(file, "format_version", "2.0"); });
  EXPECT_THAT(message_of_reading(path_),
              HasSubstr("@format_version: is 2.0, and this program reads 1.0"));
  forge([&](hid_t file) { set_text(file, "format_version", "1.7"); });
  EXPECT_EQ(message_of_reading(path_), "read");
  forge([&](hid_t file) { set_text(file, "format_version", "x"); });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("@format_version: is \"x\""));
  forge([&](hid_t file) { set_text(file, "format", "else"); });
  EXPECT_THAT(message_of_reading(path_),
              HasSubstr("@format: is \"else\", expected \"dgap-trace\""));
  forge([&](hid_t file) { H5Adelete(file, "run_id"); });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("@run_id: attribute is missing"));
}

/// Texts as other writers store them: fixed and variable length, ASCII and UTF-8, three paddings,
/// and exactly as long as their field.
TEST_F(Forged, TextsOfEveryKind) {
  struct Kind {
    bool variable;
    H5T_cset_t set;
    H5T_str_t padding;
    std::size_t extra;  // bytes of the field beyond the text
  };
  const Kind kinds[] = {
      {false, H5T_CSET_ASCII, H5T_STR_NULLTERM, 0}, {false, H5T_CSET_ASCII, H5T_STR_NULLPAD, 3},
      {false, H5T_CSET_UTF8, H5T_STR_NULLPAD, 0},   {false, H5T_CSET_UTF8, H5T_STR_SPACEPAD, 2},
      {false, H5T_CSET_UTF8, H5T_STR_NULLTERM, 4},  {true, H5T_CSET_ASCII, H5T_STR_NULLTERM, 0},
      {true, H5T_CSET_UTF8, H5T_STR_NULLTERM, 0}};
  const std::string text = "café";
  for (const Kind& kind : kinds) {
    forge([&](hid_t file) {
      const hid_t type = H5Tcopy(H5T_C_S1), scalar = H5Screate(H5S_SCALAR);
      H5Tset_size(type, kind.variable ? H5T_VARIABLE : text.size() + kind.extra);
      H5Tset_cset(type, kind.set), H5Tset_strpad(type, kind.padding);
      const std::string padded =
          text + std::string(kind.extra, kind.padding == H5T_STR_SPACEPAD ? ' ' : '\0');
      std::string fixed = padded + padded + padded;
      const char* variable[] = {text.c_str(), text.c_str(), text.c_str()};
      const void* data = kind.variable ? static_cast<const void*>(variable) : fixed.data();
      H5Adelete(file, "compute");
      const hid_t attribute = H5Acreate2(file, "compute", type, scalar, H5P_DEFAULT, H5P_DEFAULT);
      H5Awrite(attribute, type, data);
      H5Aclose(attribute), H5Sclose(scalar);
      replace(file, "units/book", type, {3}, [](hid_t p) { chunks_of(p, 3); });
      const hid_t books = H5Dopen2(file, "units/book", H5P_DEFAULT);
      H5Dwrite(books, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
      H5Dclose(books);
      replace(file, "config", type, {});
      const hid_t config = H5Dopen2(file, "config", H5P_DEFAULT);
      H5Dwrite(config, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data);
      H5Dclose(config), H5Tclose(type);
    });
    const TracePart part = read_trace_part(path_);
    EXPECT_EQ(part.header.compute, text);
    EXPECT_EQ(part.config_yaml, text);
    for (const TraceUnit& unit : part.units) EXPECT_EQ(unit.book, text);
  }
}

// Texts of variable length have no checksum, and HDF5 believes their sizes.
TEST_F(Forged, DamagedTextsOfVariableLength) {
  forge([](hid_t file) {
    const hid_t type = H5Tcopy(H5T_C_S1), scalar = H5Screate(H5S_SCALAR);
    H5Tset_size(type, H5T_VARIABLE);
    const std::string text(70, 'x');
    const char* const pointer = text.c_str();
    for (const char* name : {"compute", "cpu_isa", "decode_mode", "run_id", "producer"}) {
      H5Adelete(file, name);
      const hid_t attribute = H5Acreate2(file, name, type, scalar, H5P_DEFAULT, H5P_DEFAULT);
      H5Awrite(attribute, type, &pointer);
      H5Aclose(attribute);
    }
    H5Sclose(scalar), H5Tclose(type);
  });
  const std::string bytes = base::read_file(path_);
  const std::size_t heap = bytes.find("GCOL");
  ASSERT_NE(heap, bytes.npos);
  int refused = 0;
  for (std::size_t bit = 0; bit < 8 * 480; bit += 7) {
    std::string altered = bytes;
    altered[heap + bit / 8] =
        static_cast<char>(altered[heap + bit / 8] ^ static_cast<char>(1 << bit % 8));
    testing::write_bytes(path_, altered);
    refused += message_of_reading(path_) != "read";
  }
  EXPECT_GT(refused, 40);
}

TEST_F(Forged, TextThatIsNotUtf8) {
  forge([](hid_t file) {
    H5Adelete(file, "compute");
    const hid_t type = H5Tcopy(H5T_C_S1), scalar = H5Screate(H5S_SCALAR);
    H5Tset_size(type, 2);
    const hid_t attribute = H5Acreate2(file, "compute", type, scalar, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(attribute, type, "\xe9!");
    H5Aclose(attribute), H5Sclose(scalar), H5Tclose(type);
  });
  EXPECT_THAT(message_of_reading(path_), HasSubstr("@compute: is not UTF-8"));
}

TEST_F(Forged, BigEndianNumbersAreRead) {
  const TracePart part = make_synthetic();
  forge([&](hid_t file) {
    replace(file, "tokens", H5T_STD_I32BE, {part.tokens.size()},
            [&](hid_t p) { chunks_of(p, part.tokens.size()); });
    const hid_t set = H5Dopen2(file, "tokens", H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, part.tokens.data());
    H5Dclose(set);
  });
  EXPECT_EQ(read_trace_part(path_).tokens, part.tokens);
}

TEST_F(Forged, ErrorsAreNotPrinted) {
  ::testing::internal::CaptureStderr();
  testing::write_bytes(path_, "nothing");
  message_of_reading(path_);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace dgap::schemas
