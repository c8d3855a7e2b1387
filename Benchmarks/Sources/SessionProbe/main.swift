import Glibc
import LupineSession

// Fetches a URL with nothing but LupineSession: prints "200 13" and ends with 0, or prints "code phase" and ends with 1.
//
// The environment says what: PROBE_URL, PROBE_ROOTS (a file), PROBE_HOST and PROBE_ADDRESS ("host:port", "address:port": an override).
// Not the arguments: Swift reads those from /proc, which an empty chroot has not. Nor `await`: its threads are Dispatch's, which traps now and
// then where there is no /proc to count them in (Docs/Embedding.md).

func setting(_ name: String) -> String? { getenv(name).map { String(cString: $0) } }

guard let url = setting("PROBE_URL") else {
  print("PROBE_URL is not set")
  exit(2)
}
var configuration = SessionConfiguration()
if let roots = setting("PROBE_ROOTS") { configuration.tls.roots = .file(roots) }
if let host = setting("PROBE_HOST"), let address = setting("PROBE_ADDRESS") {
  configuration.nameOverrides = [host: address]
}

@Sendable nonisolated func end(_ error: SessionError) {
  print("\(error.code) \(error.phase)")
  print(error)
  exit(1)
}

nonisolated func fetch(_ url: String, _ configuration: SessionConfiguration) throws(SessionError) -> Session {
  let session = try Session(configuration)
  session.data(for: try Request(url)) { result in
    switch result {
    case .success(let (body, response)):
      print("\(response.statusCode) \(body.count)")
      exit(0)
    case .failure(let error): end(error)
    }
  }
  return session
}

do {
  // The completion ends the process, on the engine's thread; the session lives until then.
  let session = try fetch(url, configuration)
  while pause() != 0 { withExtendedLifetime(session) {} }
} catch {
  end(error)
}
