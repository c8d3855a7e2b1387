import Foundation
import Lupine
import LupineBase
import LupineTesting
import Testing

/// The form as a value: parts, lengths, boundaries, errors, files on disk.
@Suite struct MultipartFormDataTests {
  private static let boundary = "Boundary+0123456789ABCDEF"

  private static func bytes(_ form: MultipartFormData) async throws -> String {
    String(decoding: try await form.body.collect(upTo: 1 << 20), as: UTF8.self)
  }

  /// 236 bytes, the total of the inventory.
  @Test func golden() async throws {
    var form = try MultipartFormData(boundary: Self.boundary)
    form.append(Data("value".utf8), name: "key")
    form.append(Data("Data".utf8), name: "f", fileName: "a.txt", mimeType: "text/plain")
    #expect(form.contentLength == 236)
    #expect(form.contentType == "multipart/form-data; boundary=Boundary+0123456789ABCDEF")
    #expect(
      try await Self.bytes(form)
        == "--\(Self.boundary)\r\nContent-Disposition: form-data; name=\"key\"\r\n\r\nvalue\r\n"
        + "--\(Self.boundary)\r\nContent-Disposition: form-data; name=\"f\"; filename=\"a.txt\"\r\n"
        + "Content-Type: text/plain\r\n\r\nData\r\n--\(Self.boundary)--\r\n")
    guard case .bytes = form.body else {
      Issue.record("a small form is one piece")
      return
    }
  }

  @Test func emptyForm() async throws {
    let form = MultipartFormData()
    #expect(form.isEmpty && form.contentLength == 0)
    #expect(try await Self.bytes(form) == "")
    var request = try Request("http://a.example/", method: .post, body: .bytes([1]))
    form.apply(to: &request)
    #expect(request.fields.isEmpty && request.body.knownLength == 1)
  }

  @Test func applyReplacesTypeBodyAndFraming() throws {
    var form = MultipartFormData()
    form.append(Data("v".utf8), name: "n")
    var request = try Request(
      "http://a.example/", method: .post,
      fields: [.contentType: "application/x-www-form-urlencoded", .contentLength: "3", .accept: "a/b"],
      body: .bytes([1, 2, 3]))
    // What was said of the bytes before would have a server unpack the form.
    try request.compressBody()
    request.fields[.contentLength] = "3"
    request.fields[.transferEncoding] = "chunked"
    form.apply(to: &request)
    #expect(request.fields[values: .contentType] == [form.contentType])
    #expect(request.fields[.contentLength] == nil && request.fields[.contentEncoding] == nil)
    #expect(request.fields[.transferEncoding] == nil && request.fields[.accept] == "a/b")
    #expect(request.body.knownLength == form.contentLength)
  }

  @Test func isAValue() {
    var form = MultipartFormData()
    form.append(Data(), name: "a")
    let copy = form
    form.append(Data(), name: "b")
    #expect(copy.contentLength != form.contentLength)
    #expect(copy.boundary == form.boundary)
  }

  // MARK: Boundaries

  @Test func boundaryIsNewForEachForm() {
    let boundaries = Set((0..<100).map { _ in MultipartFormData().boundary })
    #expect(boundaries.count == 100)
    #expect(boundaries.allSatisfy { $0.wholeMatch(of: /Boundary\+[0-9A-F]{16}/) != nil })
  }

  @Test(arguments: ["", "a ", "a\r\nb", "ä", "a\"b", String(repeating: "x", count: 71)])
  func boundaryOfTheCallerIsChecked(_ text: String) throws {
    let error = #expect(throws: SerializationError.self) { try MultipartFormData(boundary: text) }
    #expect(error?.code == .invalidBoundary)
  }

  @Test func boundaryThatIsNoTokenIsQuoted() throws {
    #expect(try MultipartFormData(boundary: "a b:c").contentType == "multipart/form-data; boundary=\"a b:c\"")
    #expect(try MultipartFormData(boundary: nil).boundary.hasPrefix("Boundary+"))
  }

  /// Content, a name, a header: whatever is in memory and holds the boundary makes the form take another one, for all its parts.
  @Test(arguments: 0..<4) func boundaryNeverOccursInMemory(_ place: Int) async throws {
    var form = try MultipartFormData(boundary: "mine")
    form.append(Data("first".utf8), name: "a")
    #expect(form.boundary == "mine")
    switch place {
    case 0: form.append(Data("x\r\n--mine--\r\ny".utf8), name: "b")
    case 1: form.append(Data("mine".utf8), name: "b", fileName: "f", mimeType: "a/b")
    case 2: form.append(Data(), name: "determined")
    default: try form.append(headers: [(name: "--mine--", value: "")], body: Data())
    }
    #expect(form.boundary != "mine")
    form.append(Data(), name: "mine")
    #expect(form.boundary.hasPrefix("Boundary+"))
    let text = try await Self.bytes(form)
    #expect(text.components(separatedBy: form.boundary).count - 1 == 4)
    #expect(text.hasPrefix("--\(form.boundary)\r\n") && text.hasSuffix("\r\n--\(form.boundary)--\r\n"))
    #expect(form.contentType.hasSuffix(form.boundary))
  }

  // MARK: Headers

  @Test func namesCannotBreakOut() async throws {
    var form = try MultipartFormData(boundary: Self.boundary)
    let evil = "a\"\r\nX-Evil: 1\r\n\r\n\0ü"
    form.append(Data(), name: evil, fileName: evil, mimeType: "a/b\r\nX-Evil: 1")
    #expect(
      try await Self.bytes(form).components(separatedBy: "\r\n").dropFirst().prefix(3)
        == [
          "Content-Disposition: form-data; name=\"a%22%0D%0AX-Evil: 1%0D%0A%0D%0A%00ü\"; "
            + "filename=\"a%22%0D%0AX-Evil: 1%0D%0A%0D%0A%00ü\"",
          "Content-Type: a/b%0D%0AX-Evil: 1", "",
        ])
  }

  @Test func headersOfTheCaller() async throws {
    var form = try MultipartFormData(boundary: Self.boundary)
    try form.append(headers: [(name: "Content-ID", value: "<1>"), (name: "X-A", value: "b")], body: Data("c".utf8))
    try form.append(headers: [], body: Data("d".utf8))
    #expect(
      try await Self.bytes(form)
        == "--\(Self.boundary)\r\nContent-ID: <1>\r\nX-A: b\r\n\r\nc\r\n--\(Self.boundary)\r\n\r\nd\r\n--\(Self.boundary)--\r\n"
    )
    for header in [(name: "a b", value: ""), (name: "a", value: "b\r\nc: d"), (name: "", value: "")] {
      let error = #expect(throws: SerializationError.self) { try form.append(headers: [header], body: Data()) }
      #expect(error?.code == .invalidPartHeader)
    }
    #expect(try await Self.bytes(form).components(separatedBy: Self.boundary).count == 4)
  }

  // MARK: Files

  @Test(arguments: [
    ("a.cer", "application/x-x509-ca-cert"), ("a.txt", "text/plain"), ("a.JPEG", "image/jpeg"),
    ("a.b.png", "image/png"),
    ("a", "application/octet-stream"), ("a.nobody-has-this", "application/octet-stream"),
    ("ü \"1\".json", "application/json"),
  ]) func fileHasNameTypeAndLength(_ name: String, _ type: String) async throws {
    let folder = try MultipartFolder()
    let url = try folder.write(Data("content".utf8), to: name)
    var form = try MultipartFormData(boundary: Self.boundary)
    try form.append(fileURL: url, name: "f")
    let text = try await Self.bytes(form)
    let written = name.replacing("\"", with: "%22")
    #expect(
      text
        == "--\(Self.boundary)\r\nContent-Disposition: form-data; name=\"f\"; filename=\"\(written)\"\r\nContent-Type: \(type)\r\n"
        + "\r\ncontent\r\n--\(Self.boundary)--\r\n")
    #expect(form.contentLength == Int64(text.utf8.count))
  }

  @Test func fileErrors() throws {
    let folder = try MultipartFolder()
    var form = MultipartFormData()
    func code(_ url: URL) -> SerializationError? {
      #expect(throws: SerializationError.self) { try form.append(fileURL: url, name: "f") }
    }
    let web = try #require(URL(string: "http://user:secret@a.example/file"))
    #expect(code(web)?.code == .notFileURL)
    #expect(code(web)?.message == "Expected URL to be a file URL")
    #expect(code(web)?.failingURL?.contains("secret") != true)
    #expect(code(folder.url.appending(path: "missing"))?.code == .fileNotReachable)
    #expect(code(folder.url.appending(path: "missing"))?.message.hasPrefix("File URL not reachable") == true)
    #expect(code(folder.url)?.code == .fileNotReachable)
    #expect(code(URL(filePath: "/dev/null"))?.code == .fileNotReachable)
    try folder.write(Data("x".utf8), to: "etc")
    #expect(code(try #require(URL(string: folder.url.absoluteString + "etc%00x")))?.code == .fileNotReachable)
    #expect(form.isEmpty)
  }

  // MARK: Streams and lengths

  private static func stream(_ text: String) -> @Sendable () -> BodyStream { { BodyStream([Array(text.utf8)]) } }

  @Test(arguments: [6, nil, -1] as [Int64?]) func streams(_ length: Int64?) async throws {
    var form = try MultipartFormData(boundary: Self.boundary)
    form.append(
      stream: Self.stream("stream"), length: length, isReplayable: true, name: "s", fileName: "s.bin", mimeType: "a/b")
    let text = try await Self.bytes(form)
    #expect(text.contains("filename=\"s.bin\"\r\nContent-Type: a/b\r\n\r\nstream\r\n--"))
    #expect(form.contentLength == (length == 6 ? Int64(text.utf8.count) : nil))
    #expect(form.body.knownLength == form.contentLength)
    #expect(form.body.isReplayable)
    form.append(stream: Self.stream(""), length: 0, isReplayable: false, name: "", fileName: "", mimeType: "")
    #expect(!form.body.isReplayable)
  }

  @Test func lengthsThatDoNotAddUp() {
    var form = MultipartFormData()
    for _ in 0..<2 {
      form.append(stream: Self.stream(""), length: .max, isReplayable: true, name: "", fileName: "", mimeType: "")
    }
    #expect(form.contentLength == nil)
  }

  @Test(arguments: [5, 7]) func streamOfAnotherLength(_ length: Int64) async throws {
    var form = MultipartFormData()
    form.append(
      stream: Self.stream("stream"), length: length, isReplayable: true, name: "s", fileName: "s", mimeType: "")
    #expect(try await formFailure { try await form.body.collect(upTo: 1 << 20) }.code == .requestBodyFailed)
  }

  // MARK: Throttling

  @Test func suggestionsAreThoseOfAFNetworking() {
    #expect(MultipartFormData.suggestedPacketSize == 16384)
    #expect(MultipartFormData.suggestedDelay == .seconds(0.2))
  }

  /// The pauses are real, the packets no larger than said, the bytes the same.
  @Test func throttling() async throws {
    var form = MultipartFormData()
    form.append(Data(PatternBody.bytes(10_000)), name: "a")
    form.append(stream: Self.stream("stream"), length: 6, isReplayable: true, name: "s", fileName: "", mimeType: "")
    let whole = try await form.body.collect(upTo: 1 << 20)
    form.throttleBandwidth(packetSize: 1000, delay: .milliseconds(10))
    #expect(form.body.knownLength == form.contentLength)
    #expect(form.body.isReplayable)
    let packets = Locked<[[UInt8]]>([])
    let start = ContinuousClock.now
    try await form.body.forEachChunk { packet in
      packets.withLock { $0.append(packet) }
      return true
    }
    let elapsed = ContinuousClock.now - start
    let sizes = packets.withLock { $0.map(\.count) }
    #expect(packets.withLock { Array($0.joined()) } == whole)
    #expect(sizes.max() == 1000)
    #expect(elapsed >= .milliseconds(10 * sizes.count))
    form.throttleBandwidth(packetSize: 0, delay: .zero)
    #expect(try await form.body.collect(upTo: 1 << 20) == whole)
  }

  @Test(arguments: [0, 6, 8]) func throttledFormWhoseFileChanged(_ size: Int) async throws {
    let folder = try MultipartFolder()
    var form = MultipartFormData()
    try form.append(fileURL: folder.write(Data(count: 7), to: "file"), name: "f")
    form.throttleBandwidth(packetSize: 1000, delay: .zero)
    try folder.write(Data(count: size), to: "file")
    #expect(try await formFailure { try await form.body.collect(upTo: 1 << 20) }.code == .fileChanged)
  }

  @Test(.timeLimit(.minutes(1))) func throttledTaskIsCancelledAtOnce() async throws {
    var form = MultipartFormData()
    form.append(Data(PatternBody.bytes(1000)), name: "a")
    form.throttleBandwidth(packetSize: 1, delay: .seconds(1000))
    let sent = AsyncStream<Void>.makeStream()
    let task = Task { [form] in
      try await form.body.forEachChunk { _ in
        sent.continuation.yield()
        return true
      }
    }
    for await _ in sent.stream { break }
    task.cancel()
    #expect(try await formFailure { try await task.value }.code == .cancelled)
  }

  // MARK: Writing

  @Test func writing() async throws {
    let folder = try MultipartFolder()
    let file = try folder.write(Data(PatternBody.bytes(200_000)), to: "file")
    var form = MultipartFormData()
    try form.append(fileURL: file, name: "f")
    form.append(Data("v".utf8), name: "n")
    form.throttleBandwidth(packetSize: 1, delay: .seconds(1000))
    let path = folder.path("form")
    try await form.write(to: path)
    let written = try folder.contents(of: "form")
    #expect(Int64(written.count) == form.contentLength)
    #expect(written.range(of: Data(PatternBody.bytes(200_000))) != nil)
    let attributes = try FileManager.default.attributesOfItem(atPath: path)
    #expect(attributes[.posixPermissions] as? Int == 0o600)
    // What is there is never touched, links included.
    #expect(try await formFailure { try await form.write(to: path) }.code == .fileFailed)
    #expect(try folder.contents(of: "form") == written)
    try FileManager.default.createSymbolicLink(atPath: folder.path("link"), withDestinationPath: folder.path("target"))
    #expect(try await formFailure { try await form.write(to: folder.path("link")) }.code == .fileFailed)
    #expect(try await formFailure { try await form.write(to: folder.path("no/such")) }.code == .fileFailed)
    #expect(!FileManager.default.fileExists(atPath: folder.path("target")))
  }

  /// Nothing is left of a form that cannot be written in full.
  @Test(arguments: [0, 6, 8]) func formThatCannotBeWritten(_ size: Int) async throws {
    let folder = try MultipartFolder()
    let file = try folder.write(Data(count: 7), to: "file")
    var form = MultipartFormData()
    form.append(Data("v".utf8), name: "n")
    try form.append(fileURL: file, name: "f")
    try folder.write(Data(count: size), to: "file")
    #expect(try await formFailure { try await form.write(to: folder.path("form")) }.code == .fileChanged)
    #expect(!FileManager.default.fileExists(atPath: folder.path("form")))
  }
}
