import { shop } from '../../../../lib/shop'

async function answer(request: Request) {
  return (await shop()).board.fetch(request)
}

export { answer as GET, answer as POST }
