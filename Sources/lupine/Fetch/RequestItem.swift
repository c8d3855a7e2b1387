internal import LupineCommandLine
internal import LupineRules

/// One argument after the URL, in HTTPie's notation.
///
/// Signs are scalars: with a mark behind it, such as a skin tone or an accent that a value begins with, a sign is one character together with it.
enum RequestItem: Sendable, Equatable {
  /// `name:value`; an empty value (`name:`) leaves a default field out.
  case header(name: String, value: String)
  /// `name;`: a field with an empty value.
  case emptyHeader(name: String)
  /// `name==value`.
  case query(name: String, value: String)
  /// `name=value`, or `name=@file` with the file's text.
  case field(name: String, value: String)
  /// `name:=json`, or `name:=@file`.
  case json(name: String, value: JSONValue)
  /// `name@file`, with `;type=media/type` at will.
  case file(name: String, path: String, type: String?)
  /// `@file`: the file is the body.
  case body(path: String)

  /// Whether it is about a header field.
  var isField: Bool {
    switch self {
    case .header, .emptyHeader: true
    default: false
    }
  }

  private static let separators = [":=@", "=@", ":=", "==", ":", "=", "@"]

  /// Reads an item. A backslash makes a separator's character an ordinary one.
  ///
  /// The first separator decides; of those that begin at one place, the longest.
  init(_ text: String, readFile: (String) throws -> [UInt8] = { try System.contents(of: $0) }) throws {
    if let name = Self.nameOfEmptyHeader(text) {
      self = .emptyHeader(name: name)
      return
    }
    guard let (name, separator, rest) = Self.split(text) else {
      let beginning = BatchRefusal.quoted(nameIn: text)
      throw CommandFailure.misuse(
        "\(beginning) is no item; write name:value, name==value, name=value, name:=json or name@file")
    }
    guard !name.isEmpty || separator == "@" else {
      throw CommandFailure.misuse("an item has no name before \"\(separator)\"")
    }
    let value = Self.unescaped(rest)
    switch separator {
    case ":": self = .header(name: name, value: value)
    case "==": self = .query(name: name, value: value)
    case "=": self = .field(name: name, value: value)
    case "=@": self = .field(name: name, value: try Self.text(try readFile(value), of: value))
    case ":=": self = .json(name: name, value: try Self.json(Array(value.utf8), name))
    case ":=@": self = .json(name: name, value: try Self.json(try readFile(value), name))
    default:
      guard !value.isEmpty else {
        throw CommandFailure.misuse("\(BatchRefusal.quoted(nameIn: text)) names no file after \"@\"")
      }
      self = name.isEmpty ? .body(path: value) : Self.file(name, escaped: rest)
    }
  }

  /// Reads a part of `--multipart`: `name=text`, or `name@file` with `;type=media/type` at will; whichever sign comes first decides. In the name a
  /// backslash makes a sign an ordinary character; text and path are as they stand.
  init(part text: String) throws(CommandFailure) {
    var name = String.UnicodeScalarView()
    var rest = text.unicodeScalars[...]
    while let scalar = rest.popFirst() {
      switch scalar {
      case "\\" where rest.first == "=" || rest.first == "@": name.append(rest.removeFirst())
      case "=":
        self = .field(name: String(name), value: String(rest))
        return
      case "@" where !rest.isEmpty:
        self = Self.file(String(name), String(rest))
        return
      default: name.append(scalar)
      }
    }
    throw .misuse("--multipart \(BatchRefusal.quoted(nameIn: text)) is neither name=text nor name@file")
  }

  /// Reads what follows `--header`: `name:value` or `name;`. What is written for other tools as well stands for itself: no sign is looked for behind the
  /// colon, and a backslash is one.
  init(header text: String) throws(CommandFailure) {
    if let name = Self.nameOfEmptyHeader(text) {
      self = .emptyHeader(name: name)
      return
    }
    guard let colon = text.utf8.firstIndex(of: UInt8(ascii: ":")), colon != text.startIndex else {
      throw .misuse("--header \(BatchRefusal.quoted(nameIn: text)) is not of the form name:value")
    }
    self = .header(name: String(text[..<colon]), value: String(text[text.utf8.index(after: colon)...]))
  }

  private static func nameOfEmptyHeader(_ text: String) -> String? {
    let scalars = text.unicodeScalars
    guard scalars.last == ";", scalars.count > 1 else { return nil }
    let name = scalars.dropLast()
    return name.contains { ":=@\\".unicodeScalars.contains($0) } ? nil : String(name)
  }

  private static func file(_ name: String, _ value: String) -> RequestItem {
    guard let mark = value.range(of: ";type=") else { return .file(name: name, path: value, type: nil) }
    return .file(name: name, path: String(value[..<mark.lowerBound]), type: String(value[mark.upperBound...]))
  }

  /// The same, where a backslash makes a sign an ordinary character: the semicolon before a type as well.
  private static func file(_ name: String, escaped text: Substring.UnicodeScalarView) -> RequestItem {
    var rest = text
    while let scalar = rest.first {
      if rest.starts(with: ";type=".unicodeScalars) {
        let type = unescaped(rest.dropFirst(6))
        return .file(name: name, path: unescaped(text[..<rest.startIndex]), type: type)
      }
      let isEscape = scalar == "\\" && rest.dropFirst().first.map { isSign($0) } == true
      rest = rest.dropFirst(isEscape ? 2 : 1)
    }
    return .file(name: name, path: unescaped(text), type: nil)
  }

  /// A field is text, in JSON as in a form: other bytes would arrive as something else.
  private static func text(_ bytes: [UInt8], of path: String) throws(CommandFailure) -> String {
    if let text = String(validating: bytes, as: UTF8.self) { return text }
    throw .misuse(
      "\(path == "-" ? "standard input" : path) is no UTF-8 text, which a field has to be; name@file sends a file as it is"
    )
  }

  private static func json(_ bytes: [UInt8], _ name: String) throws(CommandFailure) -> JSONValue {
    do throws(JSONError) {
      return try JSONReader.read(bytes)
    } catch {
      throw .misuse("the value of \"\(name):=\" is no JSON: \(error); quote text as '\"text\"', or use \(name)=text")
    }
  }

  /// The name without its backslashes, and the value with them.
  private static func split(
    _ text: String
  ) -> (name: String, separator: String, value: Substring.UnicodeScalarView)? {
    var name = String.UnicodeScalarView()
    var rest = text.unicodeScalars[...]
    while let scalar = rest.first {
      if scalar == "\\", let next = rest.dropFirst().first, isSign(next) {
        name.append(next)
        rest = rest.dropFirst(2)
      } else if let separator = separators.first(where: { rest.starts(with: $0.unicodeScalars) }) {
        return (String(name), separator, rest.dropFirst(separator.unicodeScalars.count))
      } else {
        name.append(scalar)
        rest = rest.dropFirst()
      }
    }
    return nil
  }

  private static func unescaped(_ text: Substring.UnicodeScalarView) -> String {
    var result = String.UnicodeScalarView()
    var rest = text
    while let scalar = rest.first {
      if scalar == "\\", let next = rest.dropFirst().first, isSign(next) {
        result.append(next)
        rest = rest.dropFirst(2)
      } else {
        result.append(scalar)
        rest = rest.dropFirst()
      }
    }
    return String(result)
  }

  /// Whether a backslash makes it an ordinary character.
  private static func isSign(_ scalar: Unicode.Scalar) -> Bool { ":=@;".unicodeScalars.contains(scalar) }
}

extension String {
  /// The path of an argument that names a file; nil without the "@" before it.
  var pathBehindAt: String? { unicodeScalars.first == "@" ? String(unicodeScalars.dropFirst()) : nil }
}

extension StringProtocol {
  /// As many whole scalars from the beginning as fit.
  func cut(toBytes limit: Int) -> String {
    var result = String.UnicodeScalarView()
    var room = limit
    for scalar in unicodeScalars {
      room -= UTF8.width(scalar)
      guard room >= 0 else { break }
      result.append(scalar)
    }
    return String(result)
  }

  /// The first place where `text` occurs.
  func range(of text: String) -> Range<Index>? {
    var start = startIndex
    while start < endIndex {
      if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
      start = index(after: start)
    }
    return nil
  }
}
