// Prints the nanoseconds that one response head costs: begun, parsed, validated, indexed, framing decided, and let go.
// Usage: HeadParser FILE COUNT
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

func run(_ head: [UInt8], _ count: Int) throws -> Int {
  var parser = ResponseParser()
  var fields = 0
  for _ in 0..<count {
    var offset = 0
    parser.begin(RequestContext(isHead: true))
    while true {
      switch try parser.next(head.span, &offset) {
      case .head(let head, _): fields &+= head.fields.count; continue
      case .end: break
      default: fatalError("not one whole head")
      }
      break
    }
  }
  return fields
}

let head = read(CommandLine.arguments[1])
let count = Int(CommandLine.arguments[2]) ?? 1_000_000
_ = try run(head, count / 10)
let start = now()
let fields = try run(head, count)
let nanoseconds = Double(now() - start) / Double(count)
print(String(Int(nanoseconds * 100)), fields / count, head.count)
