import type { IncomingMessage, ServerResponse } from 'node:http'
import { Body, Controller, Get, HttpCode, Param, Post, Req, Res } from '@nestjs/common'
import { Holdfast } from 'holdfast'
import { deliveryOf } from 'holdfast/http'
import { healthHandler } from 'holdfast/telemetry'
import { markPaid } from '../shop.js'
import { ShopService } from './shop.service.js'

@Controller()
export class ShopController {
  constructor(private readonly shop: ShopService) {}

  @Post('orders')
  order(@Body() order: { customer: string; total: number }) {
    return this.shop.order(order)
  }

  @Post('reports/:day')
  @HttpCode(200)
  report(@Param('day') day: string) {
    return this.shop.report(day)
  }

  @Post('exports')
  @HttpCode(200)
  export(@Body('user') user: string) {
    return this.shop.export(user)
  }
}

@Controller('webhooks')
export class WebhooksController {
  @Post('payments')
  @HttpCode(200)
  async payments(@Req() request: IncomingMessage, @Body('order') order: number) {
    await markPaid(deliveryOf(request)!.tx, order)
    return { received: true }
  }
}

@Controller('health')
export class HealthController {
  private readonly health
  constructor(holdfast: Holdfast) {
    this.health = healthHandler(holdfast)
  }

  @Get(':probe')
  answer(@Req() request: IncomingMessage, @Res() response: ServerResponse) {
    return this.health.node(request, response)
  }
}
