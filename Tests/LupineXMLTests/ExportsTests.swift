import LupineXML
import Testing

@Suite struct ExportsTests {
  @Test func oneImportIsEnough() {
    #expect(SerializationError(.cannotParseResponse, message: "no XML").message == "no XML")
  }
}
