import Lupine
import Testing

/// Media types by extension: our table, the system's, and what is neither in the one nor in the other.
@Suite struct MediaTypesTests {
  @Test(arguments: [
    ("a.cer", "application/x-x509-ca-cert"), ("/x.y/b", "application/octet-stream"), ("b.", "application/octet-stream"),
    (".txt", "text/plain"), ("a.TXT", "text/plain"), ("/a/b.tar.gz", "application/gzip"),
    ("", "application/octet-stream"),
    ("a.mp4", "video/mp4"), ("a.x-nobody-has-this", "application/octet-stream"),
  ]) func typesOfFiles(_ path: String, _ type: String) {
    #expect(MediaTypes.type(ofFile: path) == type)
  }

  @Test(
    arguments: [
      ("", [:]), ("# text/plain txt", [:]), ("text/plain", [:]),
      ("text/plain txt asc\n", ["txt": "text/plain", "asc": "text/plain"]),
      ("text/plain\tTXT  # text\r\n\r\na/b c", ["txt": "text/plain", "c": "a/b"]),
      ("a/b x\nc/d x y", ["x": "a/b", "y": "c/d"]),
      ("notype x\n/\u{1}a x\ntext/ü y\n", [:]),
    ] as [(String, [String: String])]) func linesOfTheSystem(_ text: String, _ types: [String: String])
  {
    #expect(MediaTypes.parse(text) == types)
  }
}
