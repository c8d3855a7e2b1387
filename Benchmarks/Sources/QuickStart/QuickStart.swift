import LupineSession

/// The quick start of README.md, word for word: `.ci/check-readme` compares them, builds this and runs it.
func quickStart(_ site: String) async throws {
  // README begins
  let session = try Session()

  // Into memory. A status of 400 and above is a response, not an error.
  let (body, response) = try await session.data(from: "\(site)/hello")
  print(response.statusCode, response.mimeType ?? "?", body.count)

  // With a method, fields and a body.
  var request = try Request("\(site)/items", method: .post, body: .bytes(Array(#"{"name":"lupine"}"#.utf8)))
  request.fields[.contentType] = "application/json"
  let (_, created) = try await session.data(for: request)
  print(created.statusCode)

  // As a stream: a slow reader slows the server down, and memory stays flat.
  let (stream, _) = try await session.bytes(for: Request("\(site)/large"))
  for try await chunk in stream.chunks { print(chunk.count) }

  // Into a file, which appears when it is complete. Errors say what, where, and whether the request had left.
  do {
    let (path, _) = try await session.download(for: Request("\(site)/missing"))
    print(path)
  } catch let error as SessionError {
    print(error.code, error.phase, error.requestBytesSent)
  }
  // README ends
}
