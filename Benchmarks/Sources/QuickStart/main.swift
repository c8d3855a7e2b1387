import LupineTesting

// Runs the README's quick start against a server of its own.

let server = try LoopbackServer { request, connection in
  switch (request.method, request.target) {
  case ("GET", "/hello"):
    try connection.respond(200, fields: ["Content-Type": "text/plain"], body: Array("Hello, world!".utf8))
  case ("POST", "/items"): try connection.respond(201, body: try connection.readBody())
  case ("GET", "/large"): try connection.respond(200, body: Array(repeating: UInt8(ascii: "."), count: 100_000))
  default: try connection.respond(404, body: [])
  }
}
try await quickStart("http://127.0.0.1:\(server.port)")
server.shutdown()
