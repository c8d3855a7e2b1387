import Foundation
import LupineTesting
import Testing

/// A part as somebody else's reader finds it, its names as they are written.
struct ReadPart: Decodable, Equatable, CustomStringConvertible {
  var name: String?
  var fileName: String?
  var type: String?
  /// In Base64.
  var content: String

  init(_ name: String?, fileName: String? = nil, type: String? = nil, _ content: Data) {
    self.name = name
    self.fileName = fileName
    self.type = type
    self.content = content.base64EncodedString()
  }

  var description: String { "\(name ?? "-") \(fileName ?? "-") \(type ?? "-") \(content.count * 3 / 4) bytes" }
}

/// Readers of multipart bodies that know nothing of ours.
enum MultipartReader: String, CaseIterable, Sendable {
  /// The one of Python's mail package, for messages of any kind.
  case email
  /// The one of a web server's framework. It gives fields and files apart, each in their order, and reads `%22` as the quote that it stands for.
  case werkzeug

  /// What the reader finds in a file; nil, with a message that says what to install, where it is missing and need not be there.
  func read(_ path: String, contentType: String) throws -> [ReadPart]? {
    guard let python = Self.pythons[self] else {
      let isCI = ProcessInfo.processInfo.environment["CI"] == "true"
      #expect(!isCI, "\(self) is missing; install it with: apt-get install -y python3-werkzeug")
      print("a test is skipped because \(self) is missing; install it with: apt-get install -y python3-werkzeug")
      return nil
    }
    let output = try Self.run(python, ["-c", Self.scripts[self] ?? "", path, contentType])
    return try JSONDecoder().decode([ReadPart].self, from: output)
  }

  private static let module: [MultipartReader: String] = [.email: "email.parser", .werkzeug: "werkzeug.formparser"]

  /// For each reader the first Python that has what it needs.
  private static let pythons: [MultipartReader: String] = module.compactMapValues { module in
    ["python3", "/usr/bin/python3"].first { python in (try? run(python, ["-c", "import \(module)"])) != nil }
  }

  private static func run(_ program: String, _ arguments: [String]) throws -> Data {
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = [program] + arguments
    let (output, complaints) = (Pipe(), Pipe())
    process.standardOutput = output
    process.standardError = complaints
    try process.run()
    let data = try output.fileHandleForReading.readToEnd() ?? Data()
    let text = String(decoding: try complaints.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
    process.waitUntilExit()
    guard process.terminationStatus == 0 else { throw LoopbackError.toolFailed(name: program, output: text) }
    return data
  }

  private static let scripts: [MultipartReader: String] = [
    .email: """
    import sys, json, base64, re
    from email.parser import BytesParser
    raw = b"MIME-Version: 1.0\\r\\nContent-Type: " + sys.argv[2].encode() + b"\\r\\n\\r\\n" + open(sys.argv[1], "rb").read()
    message = BytesParser().parsebytes(raw)
    assert message.is_multipart() and not message.defects, message.defects
    assert message.preamble is None and not message.epilogue, (message.preamble, message.epilogue)
    parts = []
    for part in message.get_payload():
        assert not part.defects, part.defects
        fields = {n.lower(): v.encode("ascii", "surrogateescape").decode() for n, v in part.raw_items()}
        disposition = fields.get("content-disposition", "")
        def parameter(name):
            found = re.search(r'; ' + name + r'="([^"]*)"', disposition)
            return found.group(1) if found else None
        content = part.get_payload(decode=True)
        parts.append({"name": parameter("name"), "fileName": parameter("filename"),
                      "type": fields.get("content-type"), "content": base64.b64encode(content).decode()})
    print(json.dumps(parts))
    """,
    .werkzeug: """
    import sys, os, json, base64
    from werkzeug.formparser import parse_form_data
    stream = open(sys.argv[1], "rb")
    environment = {"wsgi.input": stream, "CONTENT_TYPE": sys.argv[2], "REQUEST_METHOD": "POST",
                   "CONTENT_LENGTH": str(os.path.getsize(sys.argv[1]))}
    _, form, files = parse_form_data(environment, silent=False)
    encode = lambda content: base64.b64encode(content).decode()
    parts = [{"name": n, "content": encode(v.encode())} for n, v in form.items(multi=True)]
    parts += [{"name": n, "fileName": f.filename, "type": f.headers.get("Content-Type"), "content": encode(f.read())}
              for n, f in files.items(multi=True)]
    print(json.dumps(parts))
    """,
  ]
}
