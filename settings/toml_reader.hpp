#pragma once

/// Reads a TOML document by tables of fields and gathers everything that is wrong with it.

#include "settings/field.hpp"

#include <array>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::settings {

/// A place in a file, both from 1; line 0: no place.
struct position {
  std::uint32_t line = 0;
  std::uint32_t column = 0;
};

/// What is wrong, where, and what is allowed. `to_string` gives `file:line:column: message`; line 0: no place in the
/// file.
struct file_error {
  std::string file;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::string message;
};
std::string to_string(const file_error& error);

/// Puts errors into the file's order and drops those after the twentieth.
void arrange(std::vector<file_error>& errors);

/// Where the file says what: "training", "training.epochs", "host[0].port". What it leaves to a default has no entry.
using position_map = std::map<std::string, position>;
/// The place of a field's value or, where it is left to its default, of the header above it.
position find_position(const position_map& positions, const std::string& field);

/// A field that earlier releases had, and what a person writes today.
struct retired_field {
  std::string_view label; ///< "section.name"
  std::string_view instead;
  std::array<std::string_view, 2> unused =
      {}; ///< values with which it did nothing, and is ignored: resolved files have them
};

class toml_reader {
public:
  /// `noun` is what messages call the file: "cluster file". A mistake in the grammar is an error; nothing can be read.
  toml_reader(std::string noun, std::string path, std::string_view text);
  /// Reads the file, of at most `bytes_max` bytes.
  static toml_reader open(std::string noun, const std::string& path, std::size_t bytes_max);
  toml_reader(toml_reader&&) noexcept;
  ~toml_reader();

  /// Those that are found are refused with what to write instead. The list must outlive the reader.
  void retire(std::span<const retired_field> fields) { retired_ = fields; }
  /// False: its errors say why nothing can be read.
  bool readable() const;

  /// Complains about whatever else stands at the top of the document.
  void allow(std::span<const std::string_view> names);

  /// Takes over the section [name], the rows of that section; an absent one is as an empty one.
  template <class Record>
  void section(std::string_view name, std::span<const field<Record>> fields, std::type_identity_t<Record>& record) {
    read_section(name, bind(fields, record, name));
  }
  /// The same of a document that has no other section and must have this one. False when anything is wrong.
  template <class Record>
  bool read_only(std::string_view section, std::span<const field<Record>> fields,
                 std::type_identity_t<Record>& record) {
    return read_only_section(section, bind(fields, record));
  }

  /// One table of an array of tables.
  class table {
    friend class toml_reader;
    const void* node_ = nullptr;
  };
  /// The tables of [[name]] at the top, at most `most`; complains about anything else.
  std::vector<table> tables(const std::string& name, std::size_t most);
  /// Those of [[header]] below `parent`, whose own place is `key`.
  std::vector<table> tables(table parent, std::string_view name, const std::string& key, const std::string& header,
                            std::size_t most);
  /// Takes over one table, whose place is to be called `key`. `below` names the arrays of tables in it.
  template <class Record>
  void read(table from, const std::string& key, std::string_view section, std::span<const field<Record>> fields,
            std::type_identity_t<Record>& record, std::initializer_list<std::string_view> below = {}) {
    read_table(from, key, section, bind(fields, record), below);
  }

  bool gives(const std::string& field) const { return positions_.contains(field); }
  position where(const std::string& field) const { return find_position(positions_, field); }
  /// An error at the place of `field`.
  void complain(const std::string& field, const std::string& message);
  /// Marks what cannot be relied on.
  void distrust(const std::string& field) { broken_.insert(field); }

  const std::string& path() const { return path_; }
  position_map& positions() { return positions_; }
  /// The fields that could not be read.
  const std::set<std::string>& broken() const { return broken_; }
  std::vector<file_error>& errors() { return errors_; }
  /// The errors, arranged. To be called last.
  std::vector<file_error> finish();

private:
  struct document;

  void read_section(std::string_view name, const std::vector<bound_field>& fields);
  bool read_only_section(std::string_view name, const std::vector<bound_field>& fields);
  void read_table(table from, const std::string& key, std::string_view section, const std::vector<bound_field>& fields,
                  std::initializer_list<std::string_view> below);
  void refuse_unknown(std::string_view section, table from, std::span<const std::string_view> known);
  void complain_at(const position& place, const std::string& message);

  std::string noun_;
  std::string path_;
  std::unique_ptr<document> document_; ///< null: not readable
  position_map positions_;
  std::set<std::string> broken_;
  std::span<const retired_field> retired_;
  std::vector<file_error> errors_;
};

/// Takes a value over as a command line gives it: strings need no quotes, lists no brackets. Returns an empty string,
/// or what is wrong, without the field's name.
std::string read_value(const bound_field& of, const std::string& text);

} // namespace dynamix::settings
