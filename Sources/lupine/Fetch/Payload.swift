internal import HTTPTypes
internal import LupineRules
internal import LupineSession

/// What kind of body is wanted.
struct PayloadOptions: Sendable {
  var json = false
  var form = false
  var raw: String?
  /// Fields in addition, as `name:value`.
  var headers: [String] = []
}

/// The body that items and options make, with the fields that go with it.
struct Payload: Sendable {
  var body = Request.Body.none
  /// `Content-Type` and, for JSON, `Accept`.
  var fields = HTTPFields()

  var hasBody: Bool {
    if case .none = body { false } else { true }
  }

  private static let acceptJSON = "application/json, */*;q=0.5"

  init(_ items: [RequestItem], options: PayloadOptions) throws {
    if options.json { fields[.accept] = Self.acceptJSON }
    let parts = items.filter(\.isPartOfBody)
    if let raw = options.raw {
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
    if text.hasPrefix("@") {
      let path = String(text.dropFirst())
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
      body = file.size == nil ? .sequence(SegmentedBody([.file(path: path, size: nil)])) : .file(path: path)
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
    let form = try MultipartForm(parts)
    fields[.contentType] = "multipart/form-data; boundary=\(form.boundary)"
    let segments = form.segments
    body = .stream(length: form.length, isReplayable: true) { BodyStream(SegmentedBody(segments)) }
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

/// Media types by file name.
enum MediaTypes {
  static let form = "application/x-www-form-urlencoded; charset=utf-8"

  private static let types = [
    "json": "application/json", "txt": "text/plain", "html": "text/html", "htm": "text/html", "css": "text/css",
    "csv": "text/csv", "xml": "application/xml", "js": "text/javascript", "md": "text/markdown",
    "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
    "svg": "image/svg+xml", "pdf": "application/pdf", "zip": "application/zip", "gz": "application/gzip",
    "tar": "application/x-tar", "mp3": "audio/mpeg", "mp4": "video/mp4", "wasm": "application/wasm",
    "yaml": "application/yaml", "yml": "application/yaml",
  ]

  static func type(of path: String) -> String {
    let name = path.split(separator: "/").last ?? ""
    guard let dot = name.lastIndex(of: ".") else { return "application/octet-stream" }
    return types[name[name.index(after: dot)...].lowercased()] ?? "application/octet-stream"
  }
}
