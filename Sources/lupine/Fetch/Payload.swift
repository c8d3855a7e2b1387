internal import HTTPTypes
internal import LupineRules
internal import LupineSession

/// What kind of body is wanted.
struct PayloadOptions: Sendable {
  var json = false
  var form = false
  var raw: String?
  /// Parts of a multipart form, as `name=value` and `name@file`.
  var multipart: [String] = []
  /// Fields in addition, as `name:value`.
  var headers: [String] = []
}

/// The body that items and options make, with the fields that go with it.
struct Payload: Sendable {
  var body = Request.Body.none
  /// `Content-Type` and, for JSON, `Accept`.
  var fields = HTTPFields()
  /// The media type of a multipart form; nil for every other body.
  private(set) var formType: String?

  var hasBody: Bool {
    if case .none = body { false } else { true }
  }

  private static let acceptJSON = "application/json, */*;q=0.5"

  init(_ items: [RequestItem], options: PayloadOptions) throws {
    if options.json { fields[.accept] = Self.acceptJSON }
    let parts = items.filter(\.isPartOfBody)
    if !options.multipart.isEmpty {
      guard parts.isEmpty, options.raw == nil else {
        throw CommandFailure.misuse("--multipart and another body exclude each other")
      }
      try multipart(try options.multipart.map { try RequestItem(part: $0) })
    } else if let raw = options.raw {
      guard parts.isEmpty else { throw CommandFailure.misuse("--raw and body items exclude each other") }
      try self.raw(raw, options)
    } else if case .body(let path) = parts.first(where: \.isWholeBody) {
      guard parts.count == 1 else {
        throw CommandFailure.misuse("\"@\(path)\" is the whole body; leave the other items out")
      }
      try file(path, type: options.json ? "application/json" : MediaTypes.type(of: path))
    } else if parts.contains(where: \.isFile) {
      guard !options.json else {
        throw CommandFailure.misuse("a JSON body has no files; leave --json out, or use name=@file")
      }
      try multipart(parts)
    } else if !parts.isEmpty {
      try options.form ? form(parts) : json(parts)
    }
  }

  private mutating func raw(_ text: String, _ options: PayloadOptions) throws {
    if let path = text.pathBehindAt {
      let type = options.json ? "application/json" : options.form ? MediaTypes.form : MediaTypes.type(of: path)
      return try file(path, type: type)
    }
    body = .bytes(Array(text.utf8))
    if options.form {
      fields[.contentType] = MediaTypes.form
    } else {
      let isJSON = options.json || (try? JSONReader.read(text)) != nil
      fields[.contentType] = isJSON ? "application/json" : "text/plain; charset=utf-8"
    }
  }

  private mutating func file(_ path: String, type: String) throws {
    fields[.contentType] = type
    if path == "-" {
      body = .sequence(SegmentedBody([.standardInput]))
    } else {
      let file = try InputFile(path)
      body = file.size == nil ? .sequence(SegmentedBody([.open(file)])) : .file(path: path)
    }
  }

  private mutating func json(_ parts: [RequestItem]) throws {
    fields[.contentType] = "application/json"
    fields[.accept] = Self.acceptJSON
    let members = parts.compactMap { item -> JSONValue.Member? in
      switch item {
      case .field(let name, let value): JSONValue.Member(name, .string(value))
      case .json(let name, let value): JSONValue.Member(name, value)
      default: nil
      }
    }
    body = .bytes(JSONWriter.line(.object(members)))
  }

  private mutating func form(_ parts: [RequestItem]) throws {
    fields[.contentType] = MediaTypes.form
    let pairs = parts.compactMap(\.formPair).map {
      Percent.encoded($0.name, plusForSpace: true) + "=" + Percent.encoded($0.value, plusForSpace: true)
    }
    body = .bytes(Array(pairs.joined(separator: "&").utf8))
  }

  private mutating func multipart(_ parts: [RequestItem]) throws {
    var form = FormParts()
    for part in parts {
      if case .file(let name, let path, let type) = part {
        try form.add(name: name, path: path, type: type)
      } else if let pair = part.formPair {
        form.add(name: pair.name, value: Array(pair.value.utf8))
      }
    }
    formType = form.contentType
    fields[.contentType] = form.contentType
    body = form.body
  }

  /// What the user says that a form is, `multipart/related` say: with the form's boundary, without which nobody finds its parts.
  ///
  /// - Parameter form: what it is of itself.
  static func type(_ wanted: String, ofForm form: String) throws(CommandFailure) -> String {
    guard let type = MediaType(wanted), type.type == "multipart",
      let semicolon = form.utf8.firstIndex(of: UInt8(ascii: ";"))
    else { return wanted }
    guard type["boundary"] == nil else {
      throw .misuse("Content-Type names a boundary, and that of a form stands in none of its parts; leave it out")
    }
    return "\(wanted)\(form[semicolon...])"
  }
}

extension RequestItem {
  var isPartOfBody: Bool {
    switch self {
    case .field, .json, .file, .body: true
    case .header, .emptyHeader, .query: false
    }
  }

  var isWholeBody: Bool {
    if case .body = self { true } else { false }
  }

  var isFile: Bool {
    if case .file = self { true } else { false }
  }

  /// As a field of a form: JSON as its text.
  var formPair: (name: String, value: String)? {
    switch self {
    case .field(let name, let value): (name, value)
    case .json(let name, .string(let value)): (name, value)
    case .json(let name, let value): (name, String(decoding: JSONWriter.line(value), as: UTF8.self))
    default: nil
    }
  }
}
