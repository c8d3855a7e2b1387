import Foundation
import HTTPTypes
import LupineCommandLine
import LupineRules
import LupineSession
import Testing

@testable import lupine

@Suite struct BodyTests {
  private static let partForm =
    "a part of \"multipart\" has \"name\" and \"value\", or \"name\", \"file\" and perhaps \"fileName\" and \"type\""

  private func text(_ payload: Payload) async throws -> String {
    String(decoding: try await payload.body.collect(upTo: 1 << 20), as: UTF8.self)
  }

  @Test func multipartHasTheAnnouncedLength() async throws {
    let folder = try Folder()
    let content = String(repeating: "0123456789", count: 20_000)
    try folder.write(content, to: "a \"b\".txt")
    let payload = try Payload(
      [
        .field(name: "na\"me\r\n", value: "välue"), .file(name: "file", path: folder.path("a \"b\".txt"), type: nil),
        .json(name: "n", value: .number("1")),
      ], options: PayloadOptions())
    let text = try await text(payload)
    #expect(payload.body.knownLength == Int64(text.utf8.count))
    let boundary = try #require(payload.fields[.contentType]?.split(separator: "=").last)
    #expect(
      text
        == "--\(boundary)\r\nContent-Disposition: form-data; name=\"na%22me%0D%0A\"\r\n\r\nvälue\r\n"
        + "--\(boundary)\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a %22b%22.txt\"\r\n"
        + "Content-Type: text/plain\r\n\r\n\(content)\r\n"
        + "--\(boundary)\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n1\r\n--\(boundary)--\r\n")
  }

  @Test(
    arguments: [
      ("a=b", .field(name: "a", value: "b")), ("a=", .field(name: "a", value: "")),
      ("=b", .field(name: "", value: "b")),
      ("a==b", .field(name: "a", value: "=b")), ("a=@b", .field(name: "a", value: "@b")),
      ("a:b=c", .field(name: "a:b", value: "c")), ("a[b]=\\=", .field(name: "a[b]", value: "\\=")),
      ("a\\=b=c", .field(name: "a=b", value: "c")), ("a\\@b@c", .file(name: "a@b", path: "c", type: nil)),
      ("a\\b=c", .field(name: "a\\b", value: "c")), ("a@b=c", .file(name: "a", path: "b=c", type: nil)),
      ("a@b;type=c/d", .file(name: "a", path: "b", type: "c/d")), ("a@-", .file(name: "a", path: "-", type: nil)),
      ("a@", nil), ("a", nil), ("", nil), ("a\\=b", nil),
    ] as [(String, RequestItem?)]) func partsOfAForm(_ text: String, _ item: RequestItem?) throws
  {
    if let item {
      #expect(try RequestItem(part: text) == item)
    } else {
      #expect(throws: CommandFailure.self) { try RequestItem(part: text) }
    }
  }

  @Test(
    arguments: [
      ("multipart/related", "multipart/related; boundary=\"b;\""),
      ("Multipart/Mixed;type=\"a/b\"", "Multipart/Mixed;type=\"a/b\"; boundary=\"b;\""),
      ("text/plain", "text/plain"), ("multipart", "multipart"), ("", ""), ("multipart/mixed; Boundary=c", nil),
    ] as [(String, String?)]) func typesOfAForm(_ wanted: String, _ type: String?) throws
  {
    let form = "multipart/form-data; boundary=\"b;\""
    if let type {
      #expect(try Payload.type(wanted, ofForm: form) == type)
    } else {
      #expect(throws: CommandFailure.self) { try Payload.type(wanted, ofForm: form) }
    }
  }

  @Test func multipartExcludesOtherBodies() async throws {
    let parts = PayloadOptions(multipart: ["a=b", "c=d"])
    let payload = try Payload([.header(name: "X", value: "y"), .query(name: "q", value: "1")], options: parts)
    #expect(try await text(payload).contains("name=\"c\"\r\n\r\nd\r\n--"))
    for item in [RequestItem.field(name: "e", value: "f"), .body(path: "g"), .file(name: "h", path: "i", type: nil)] {
      #expect(throws: CommandFailure.misuse("--multipart and another body exclude each other")) {
        try Payload([item], options: parts)
      }
    }
    #expect(throws: CommandFailure.self) { try Payload([], options: PayloadOptions(raw: "r", multipart: ["a=b"])) }
    #expect(throws: CommandFailure.self) { try Payload([], options: PayloadOptions(multipart: ["a@/dev/null"])) }
    #expect(throws: (any Error).self) { try Payload([], options: PayloadOptions(multipart: ["a@/no/such"])) }
  }

  @Test func linesOfAPipe() async throws {
    let pipe = Pipe()
    let reader = LineReader(pipe.fileHandleForReading.fileDescriptor, limit: 10)
    let writer = pipe.fileHandleForWriting
    try writer.write(contentsOf: Data("one\r\n\n  \nfour\n".utf8))
    #expect(await reader.next() == .text(number: 1, Array("one".utf8)))
    #expect(await reader.next() == .text(number: 4, Array("four".utf8)))
    try writer.write(contentsOf: Data((String(repeating: "x", count: 200_00) + "\nlast").utf8))
    try writer.close()
    #expect(await reader.next() == .tooLong(number: 5))
    #expect(await reader.next() == .text(number: 6, Array("last".utf8)))
    #expect(await reader.next() == nil)
    #expect(await reader.next() == nil)
  }

  /// Each of those who wait at a time gets a line, as long as there are any.
  @Test func linesForManyWhoWait() async throws {
    let pipe = Pipe()
    let (reading, writing) = (pipe.fileHandleForReading, pipe.fileHandleForWriting)
    let reader = LineReader(reading.fileDescriptor)
    let lines = try await withThrowingTaskGroup(of: LineReader.Line?.self) { group in
      for _ in 0..<100 { group.addTask { await reader.next() } }
      try writing.write(contentsOf: Data((1...90).map { "\($0)\n" }.joined().utf8))
      try writing.close()
      var lines: [LineReader.Line?] = []
      for try await line in group { lines.append(line) }
      return lines
    }
    #expect(lines.count == 100 && lines.count { $0 == nil } == 10)
    for number in 1...90 {
      #expect(lines.contains(LineReader.Line.text(number: number, Array("\(number)".utf8))))
    }
    try reading.close()
  }

  @Test(
    arguments: [
      (#"{"url":"http://h/","headers":[["A","1"],["a","2"]]}"#, nil), (#"{"method":"GET"}"#, "\"url\" is missing"),
      (#"{"url":1}"#, "\"url\" must be a string, not a number"), ("3", "a request is an object, not a number"),
      (#"{"url":"http://h/","method":"G T"}"#, "\"method\" is no token: \"G T\""),
      (#"{"url":"http://h/","headers":{"a":"b"}}"#, "\"headers\" must be an array, not an object"),
      (#"{"url":"http://h/","headers":[["a"]]}"#, "\"headers\" is an array of [name, value] pairs of strings"),
      (#"{"url":"http://h/","headers":[["a b","c"]]}"#, "\"headers\": \"a \" is no name for a header field"),
      (
        #"{"url":"http://h/","body":"a","bodyFile":"b"}"#,
        "\"body\", \"bodyBase64\" and \"bodyFile\" exclude each other"
      ),
      (#"{"url":"http://h/","bodyBase64":"*"}"#, "\"bodyBase64\" is not Base64"),
      (#"{"url":"http://h/","multipart":[{"name":"a","value":"b"},{"name":"a","file":"/etc/passwd"}]}"#, nil),
      (
        #"{"url":"http://h/","body":"a","multipart":[{"name":"a","value":"b"}]}"#,
        "\"multipart\" and another body exclude each other"
      ),
      (#"{"url":"http://h/","multipart":[]}"#, "\"multipart\" has no part"),
      (#"{"url":"http://h/","multipart":{}}"#, "\"multipart\" must be an array, not an object"),
      (#"{"url":"http://h/","multipart":[1]}"#, "\"multipart[0]\" must be an object, not a number"),
      (#"{"url":"http://h/","multipart":[{"value":"b"}]}"#, "a part of \"multipart\" has a \"name\""),
      (#"{"url":"http://h/","multipart":[{"name":"a"}]}"#, partForm),
      (#"{"url":"http://h/","multipart":[{"name":"a","value":"b","file":"c"}]}"#, partForm),
      (#"{"url":"http://h/","multipart":[{"name":"a","value":"b","type":"c/d"}]}"#, partForm),
      (#"{"url":"http://h/","multipart":[{"name":"a","value":"b","other":"c"}]}"#, partForm),
      (#"{"url":"http://h/","multipart":[{"name":"a","file":"-"}]}"#, partForm),
      (
        #"{"url":"http://h/","multipart":[{"name":"a","file":"/no/such"}]}"#,
        "cannot open /no/such: No such file or directory"
      ),
      (#"{"url":"http://h/","timeout":0}"#, "\"timeout\" must be a number of seconds above 0 and below 1000000000"),
      (#"{"url":"http://h/","maxRedirects":1.5}"#, "\"maxRedirects\" must be an integer from 0 on"),
      (#"{"url":"http://h/","resolve":{"a":1}}"#, "\"resolve\" maps strings to strings; \"a\" is a number"),
      (#"{"url":"http://h/","clientKey":"k"}"#, "\"clientKey\" needs \"clientCert\""),
      (#"{"url":"http://h/","insecure":"yes"}"#, "\"insecure\" must be a boolean, not a string"),
      (#"{"url":"http://h/","timeout":null,"body":null}"#, nil),
    ] as [(String, String?)]) func batchRequests(_ text: String, _ refusal: String?) throws
  {
    let json = try JSONReader.read(text)
    if let refusal {
      #expect { try BatchRequest(json) } throws: { ($0 as? BatchRefusal)?.message == refusal }
    } else {
      #expect(throws: Never.self) { try BatchRequest(json) }
    }
  }

  /// It limits the whole, and leaves the limit of what may pass without progress.
  @Test func timeoutOfABatch() throws {
    let request = try BatchRequest(JSONReader.read(#"{"url":"http://h/","timeout":300.5}"#)).request
    #expect(request.totalTimeout == Duration.seconds(300.5) && request.timeoutInterval == nil)
  }
}
