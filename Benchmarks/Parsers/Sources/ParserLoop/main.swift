// Prints the nanoseconds that one response costs: begun, parsed, validated, indexed, framing decided, and let go. With --body the response
// has one, which is seen piece by piece and not copied; without, it answers a HEAD.
// Usage: ParserLoop FILE COUNT [--body]
import Glibc
import LupineWire

func now() -> Int {
  var time = timespec()
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
  return time.tv_sec * 1_000_000_000 + time.tv_nsec
}

func read(_ path: String) -> [UInt8] {
  guard let file = fopen(path, "rb") else { fatalError("cannot open \(path)") }
  defer { fclose(file) }
  var bytes: [UInt8] = []
  while case let byte = getc(file), byte != EOF { bytes.append(UInt8(byte)) }
  return bytes
}

/// Fields and bytes of bodies.
func run(_ response: [UInt8], _ count: Int, hasBody: Bool) throws -> (fields: Int, bytes: Int) {
  var parser = ResponseParser()
  var seen = (fields: 0, bytes: 0)
  for _ in 0..<count {
    var offset = 0
    parser.begin(RequestContext(isHead: !hasBody))
    while true {
      switch try parser.next(response.span, &offset) {
      case .head(let head, _): seen.fields &+= head.fields.count; continue
      case .body(let range): seen.bytes &+= range.count; continue
      case .trailers: continue
      case .end: break
      default: fatalError("not one whole response")
      }
      break
    }
  }
  return seen
}

let response = read(CommandLine.arguments[1])
let count = Int(CommandLine.arguments[2]) ?? 1_000_000
let hasBody = CommandLine.arguments.contains("--body")
_ = try run(response, count / 10, hasBody: hasBody)
let start = now()
let seen = try run(response, count, hasBody: hasBody)
let nanoseconds = Double(now() - start) / Double(count)
print("{\"nanoseconds\": \(nanoseconds), \"fields\": \(seen.fields / count), \"bytes\": \(seen.bytes / count)}")
