import Foundation
import Lupine
import LupineTesting
import Testing

/// What independent readers find in a form is what was put into it.
@Suite struct MultipartReadBackTests {
  private static let everyByte = Data((0...255).map { UInt8($0) })
  private static let contents: [Data] = [
    Data(), Data("plain".utf8), everyByte + everyByte, Data("\r\n".utf8), Data("\r\n\r\n".utf8),
    Data("\n--\r\n--".utf8),
    Data("\r\n--Boundary+\r\nContent-Disposition: form-data; name=\"x\"\r\n\r\n--Boundary+--\r\n".utf8),
    Data("trailing\r\n".utf8), Data("--".utf8), Data(repeating: 0x0D, count: 1000), Data(PatternBody.bytes(200_000)),
  ]
  private static let names: [(name: String, written: String)] = [
    ("a", "a"), ("key[sub][]", "key[sub][]"), ("quote\"d", "quote%22d"), ("line\r\nend", "line%0D%0Aend"),
    ("ünï🐺", "ünï🐺"), ("a; filename=b", "a; filename=b"), ("%22", "%22"), (" ", " "),
  ]

  private static func form(
    _ folder: MultipartFolder, chunked: Bool
  ) throws -> (form: MultipartFormData, parts: [ReadPart]) {
    var form = MultipartFormData()
    var parts: [ReadPart] = []
    for (index, content) in contents.enumerated() {
      let (name, written) = names[index % names.count]
      form.append(content, name: name, fileName: name, mimeType: "application/x-\(index)")
      parts.append(ReadPart(written, fileName: written, type: "application/x-\(index)", content))
      let file = try folder.write(content, to: "\(index).bin")
      try form.append(fileURL: file, name: name)
      parts.append(ReadPart(written, fileName: "\(index).bin", type: "application/octet-stream", content))
      form.append(
        stream: { BodyStream([[UInt8](content)]) }, length: chunked ? nil : Int64(content.count), isReplayable: true,
        name: name, fileName: "s", mimeType: "text/plain")
      parts.append(ReadPart(written, fileName: "s", type: "text/plain", content))
      // A reader of forms takes a field for text.
      let text = Data(String(decoding: content, as: UTF8.self).utf8)
      form.append(text, name: name)
      parts.append(ReadPart(written, text))
    }
    return (form, parts)
  }

  @Test(arguments: MultipartReader.allCases, [false, true])
  func partsAreReadBack(_ reader: MultipartReader, _ chunked: Bool) async throws {
    let folder = try MultipartFolder()
    let (form, parts) = try Self.form(folder, chunked: chunked)
    try await form.write(to: folder.path("form"))
    guard let read = try reader.read(folder.path("form"), contentType: form.contentType) else { return }
    switch reader {
    case .email: #expect(read == parts)
    case .werkzeug:
      // It gives what has the same name together.
      func sorted(_ parts: [ReadPart]) -> [ReadPart] {
        parts.sorted { "\($0.name ?? "")\n\($0)\n\($0.content)" < "\($1.name ?? "")\n\($1)\n\($1.content)" }
      }
      let expected = parts.map { part in
        var part = part
        part.name = part.name?.replacing("%22", with: "\"")
        part.fileName = part.fileName?.replacing("%22", with: "\"")
        return part
      }
      #expect(sorted(read) == sorted(expected))
    }
  }

  /// A boundary of the caller's that needs quotes is found all the same.
  @Test(arguments: MultipartReader.allCases, ["a b", "'(x)+_,-./:=?", String(repeating: "y", count: 70), "-"])
  func boundariesAreReadBack(_ reader: MultipartReader, _ boundary: String) async throws {
    let folder = try MultipartFolder()
    var form = try MultipartFormData(boundary: boundary)
    form.append(Data("1".utf8), name: "n")
    form.append(Data("2".utf8), name: "m", fileName: "f", mimeType: "a/b")
    // One that is so short is replaced.
    if boundary.count > 1 { #expect(form.boundary == boundary) }
    try await form.write(to: folder.path("form"))
    guard let read = try reader.read(folder.path("form"), contentType: form.contentType) else { return }
    #expect(
      read == [
        ReadPart("n", Data("1".utf8)), ReadPart("m", fileName: "f", type: "a/b", Data("2".utf8)),
      ])
  }

  /// A real server takes the form into a file of its own; there it is, byte for byte, and readable. `LUPINE_LARGE_BODY_BYTES` (default 16 MiB)
  /// is the size of its file.
  @Test(arguments: [false, true], [false, true])
  func realServerTakesTheForm(_ isSecure: Bool, _ chunked: Bool) async throws {
    let size = ProcessInfo.processInfo.environment["LUPINE_LARGE_BODY_BYTES"].flatMap { Int($0) } ?? 16 << 20
    let folder = try MultipartFolder()
    let pattern = Data(PatternBody.bytes(1 << 20))
    var content = Data()
    while content.count < size { content += pattern.prefix(size - content.count) }
    let large = try folder.write(content, to: "large.bin")
    var form = MultipartFormData()
    form.append(Data("value".utf8), name: "key")
    try form.append(fileURL: large, name: "file")
    form.append(
      stream: { BodyStream([Array("streamed".utf8)]) }, length: chunked ? nil : 8, isReplayable: true, name: "s",
      fileName: "s.txt", mimeType: "text/plain")
    try await form.write(to: folder.path("expected"))
    try await Self.withNginx(isSecure) { session, url, bodyFile in
      var request = try Request(url, method: .post)
      form.apply(to: &request)
      let (_, response) = try await session.data(for: request)
      #expect(response.statusCode == 200)
      let received = try #require(bodyFile())
      defer { try? FileManager.default.removeItem(atPath: received) }
      #expect(FileManager.default.contentsEqual(atPath: received, andPath: folder.path("expected")))
      // It takes Python a while.
      guard !isSecure, !chunked else { return }
      let read = try #require(try MultipartReader.email.read(received, contentType: form.contentType))
      #expect(read.map(\.name) == ["key", "file", "s"])
      #expect(read.map(\.fileName) == [nil, "large.bin", "s.txt"])
      #expect(Data(base64Encoded: read[1].content) == content)
    }
  }

  /// nginx keeps bodies in files and tells a server behind it their names.
  private static func withNginx(
    _ isSecure: Bool, _ body: (Session, String, () -> String?) async throws -> Void
  ) async throws {
    try await withFormServer([
      ServerRoute("POST", "/upload") { _, connection in try connection.respond(200) }
    ]) { session, server in
      do {
        let nginx = try NginxServer(
          tls: isSecure ? ServerTLS.minted(by: MultipartIdentity.authority.get(), .loopback) : nil,
          directives: """
            location = /upload {
              client_body_in_file_only on; proxy_pass_request_body off; proxy_set_header Content-Length "";
              proxy_set_header X-File $request_body_file; proxy_pass http://127.0.0.1:\(server.port);
            }
            """)
        let url = isSecure ? try #require(nginx.tlsURL("/upload")) : nginx.url("/upload")
        try await body(session, url) { server.recordedRequests.last?.fields.first("X-File") }
      } catch LoopbackError.missingTool(let name, let install) {
        #expect(ProcessInfo.processInfo.environment["CI"] != "true", "\(name) is missing; install it with: \(install)")
        print("a test is skipped because \(name) is missing; install it with: \(install)")
      }
    }
  }
}
