import Foundation
import HTTPTypes
import Lupine
import Testing

@Suite struct MultipartRequestTests {
  private static let url = "http://example.com/"

  /// Parameters come first, by names that are not escaped; `Data` is sent as it is.
  @Test func parametersComeFirst() async throws {
    let parameters: [String: any Sendable] = [
      "list": ["a", "b"], "nested": ["k": NSNull()] as [String: any Sendable], "data": Data("raw".utf8), "flag": true,
    ]
    let request = try HTTPRequestSerializer().multipartRequest(
      method: "POST", url: Self.url, parameters: parameters
    ) { form in
      form.append(Data("x".utf8), name: "file", fileName: "f.txt", mimeType: "text/plain")
    }
    let type = try #require(request.fields[.contentType])
    #expect(type.hasPrefix("multipart/form-data; boundary=Boundary+"))
    let body = try await text(request.body)
    let names = body.split(separator: "name=\"").dropFirst().map { $0.prefix { $0 != "\"" } }
    let parts = body.components(separatedBy: "\r\n\r\n").dropFirst().map { $0.prefix { $0 != "\r\n" } }
    #expect(names.filter { $0 != "f.txt" } == ["data", "flag", "list[]", "list[]", "nested[k]", "file"])
    #expect(parts.map { String($0) } == ["raw", "1", "a", "b", "", "x"])
  }

  /// Nothing at all is a plain form.
  @Test func noPartsMakeAForm() throws {
    let request = try HTTPRequestSerializer().multipartRequest(method: "POST", url: Self.url) { _ in }
    #expect(request.fields[.contentType] == "application/x-www-form-urlencoded" && request.body.text == "")
    let json = try JSONRequestSerializer().multipartRequest(method: "PUT", url: Self.url) { _ in }
    #expect(json.fields[.contentType] == nil && json.body.text == nil)
  }

  /// Also from another serializer: its headers, but a form.
  @Test func everySerializerMakesForms() async throws {
    var serializer: any HTTPRequestSerializing = JSONRequestSerializer()
    serializer.base.setValue("1", forHeader: "X-A")
    serializer.base.queryEncoding.arrays = .indexed
    serializer.base.stringEncoding = .isoLatin1
    let request = try serializer.multipartRequest(method: "PATCH", url: Self.url, parameters: ["a": ["é"]]) { _ in }
    #expect(request.fields.contains { $0.name.rawName == "X-A" })
    guard case .bytes(let bytes) = request.body else { return #expect(Bool(false), "no bytes") }
    #expect(bytes.contains(0xE9) && String(decoding: bytes, as: UTF8.self).contains("name=\"a[0]\""))
    serializer.base.stringEncoding = .ascii
    #expect(throws: SerializationError.self) {
      try serializer.multipartRequest(method: "PATCH", url: Self.url, parameters: ["a": "é"]) { _ in }
    }
  }

  @Test(arguments: ["GET", "HEAD", "get"]) func methodsWithoutBodyAreRefused(method: String) {
    let error = #expect(throws: SerializationError.self) {
      try HTTPRequestSerializer().multipartRequest(method: method, url: Self.url) { _ in }
    }
    #expect(error?.code == .requestSerializationFailed)
  }

  private struct Refusal: Error {}

  @Test func whatTheClosureThrowsIsThrown() {
    #expect(throws: Refusal.self) {
      try HTTPRequestSerializer().multipartRequest(method: "POST", url: Self.url) { _ in throw Refusal() }
    }
  }

  private func text(_ body: Request.Body) async throws -> String {
    try #require(body.text)
  }
}
