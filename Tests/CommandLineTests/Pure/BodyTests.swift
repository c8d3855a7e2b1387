import Foundation
import LupineRules
import Testing

@testable import lupine

@Suite struct BodyTests {
  private func collect(_ body: SegmentedBody) async throws -> [UInt8] {
    var all: [UInt8] = []
    for try await chunk in body { all += chunk }
    return all
  }

  @Test func multipartHasTheAnnouncedLength() async throws {
    let folder = try Folder()
    let content = String(repeating: "0123456789", count: 20_000)
    try folder.write(content, to: "a \"b\".txt")
    let form = try MultipartForm(
      [
        .field(name: "na\"me\r\n", value: "välue"), .file(name: "file", path: folder.path("a \"b\".txt"), type: nil),
        .json(name: "n", value: .number("1")),
      ], boundary: "XX")
    let bytes = try await collect(SegmentedBody(form.segments))
    #expect(Int64(bytes.count) == form.length)
    #expect(
      String(decoding: bytes, as: UTF8.self)
        == "--XX\r\nContent-Disposition: form-data; name=\"na%22me%0D%0A\"\r\n\r\nvälue\r\n"
        + "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a %22b%22.txt\"\r\n"
        + "Content-Type: text/plain\r\n\r\n\(content)\r\n"
        + "--XX\r\nContent-Disposition: form-data; name=\"n\"\r\n\r\n1\r\n--XX--\r\n")
  }

  @Test func boundariesDiffer() throws {
    #expect(try MultipartForm([]).boundary != MultipartForm([]).boundary)
  }

  /// A file that grows after its length was announced does not lengthen the body.
  @Test func growingFileIsCut() async throws {
    let folder = try Folder()
    let path = try folder.write("12345", to: "f")
    #expect(try await collect(SegmentedBody([.file(path: path, size: 3), .bytes([0x21])])) == Array("123!".utf8))
  }

  @Test func linesOfAPipe() async throws {
    let pipe = Pipe()
    let reader = LineReader(pipe.fileHandleForReading.fileDescriptor, limit: 10)
    let writer = pipe.fileHandleForWriting
    try writer.write(contentsOf: Data("one\r\n\n  \nfour\n".utf8))
    #expect(try await reader.next() == .text(number: 1, Array("one".utf8)))
    #expect(try await reader.next() == .text(number: 4, Array("four".utf8)))
    try writer.write(contentsOf: Data((String(repeating: "x", count: 200_00) + "\nlast").utf8))
    try writer.close()
    #expect(try await reader.next() == .tooLong(number: 5))
    #expect(try await reader.next() == .text(number: 6, Array("last".utf8)))
    #expect(try await reader.next() == nil)
    #expect(try await reader.next() == nil)
  }

  @Test(
    arguments: [
      (#"{"url":"http://h/","headers":[["A","1"],["a","2"]]}"#, nil), (#"{"method":"GET"}"#, "\"url\" is missing"),
      (#"{"url":1}"#, "\"url\" must be a string, not a number"), ("3", "a request is an object, not a number"),
      (#"{"url":"http://h/","method":"G T"}"#, "\"method\" is no token: G T"),
      (#"{"url":"http://h/","headers":{"a":"b"}}"#, "\"headers\" must be an array, not an object"),
      (#"{"url":"http://h/","headers":[["a"]]}"#, "\"headers\" is an array of [name, value] pairs of strings"),
      (#"{"url":"http://h/","headers":[["a b","c"]]}"#, "\"a b\" is no name for a header field"),
      (
        #"{"url":"http://h/","body":"a","bodyFile":"b"}"#,
        "\"body\", \"bodyBase64\" and \"bodyFile\" exclude each other"
      ),
      (#"{"url":"http://h/","bodyBase64":"*"}"#, "\"bodyBase64\" is not Base64"),
      (#"{"url":"http://h/","timeout":0}"#, "\"timeout\" must be a number of seconds above 0"),
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
}
