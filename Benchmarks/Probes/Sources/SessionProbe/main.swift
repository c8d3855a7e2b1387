import Glibc
import LupineSession

// Fetches a URL with nothing but LupineSession: prints "200 13" and ends with 0, or prints "code phase" and ends with 1.
//
// The environment says what: PROBE_URL, PROBE_ROOTS (a file), PROBE_HOST and PROBE_ADDRESS ("host:port", "address:port": an override).
// Not the arguments: Swift reads those from /proc, which an empty chroot has not.

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

do {
  let session = try Session(configuration)
  let (body, response) = try await session.data(from: url)
  print("\(response.statusCode) \(body.count)")
} catch let error as SessionError {
  print("\(error.code) \(error.phase)")
  print(error)
  exit(1)
}
