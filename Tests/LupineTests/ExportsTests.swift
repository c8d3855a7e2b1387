import Lupine
import Testing

@Suite struct ExportsTests {
  /// `import Lupine` alone brings sessions, methods and fields.
  @Test func oneImportIsEnough() throws {
    var request = try Request("http://localhost/")
    request.method = .post
    request.fields[.accept] = "*/*"
    #expect(request.fields[.accept] == "*/*")
    let error = SerializationError(.cannotParseResponse, message: "no JSON")
    #expect("\(error)" == "cannotParseResponse: no JSON" && error.errorDescription == "no JSON")
  }
}
